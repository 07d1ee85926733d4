"""The common part of the factories of both databases: recorders by class or by topic, with or without making tables."""

from __future__ import annotations

from typing import Any, ClassVar

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    ProcessRecorder,
    TTrackingRecorder,
)
from eventsourcing.utils import Environment, resolve_topic, strtobool

from .stored_events import IdType


class RecorderFactory(InfrastructureFactory[TTrackingRecorder]):
    """Constructs recorders of the application that its environment is named after, on one database."""

    CREATE_TABLE = "CREATE_TABLE"
    ORIGINATOR_ID_TYPE = "ORIGINATOR_ID_TYPE"

    aggregate_recorder_class: ClassVar[type[Any]]
    snapshot_recorder_class: ClassVar[type[Any]]
    application_recorder_class: ClassVar[type[Any]]
    tracking_recorder_class: ClassVar[type[Any]]
    process_recorder_class: ClassVar[type[Any]]
    datastore: Any

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """Construct a recorder of the application's events, or of its snapshots."""
        recorder: AggregateRecorder
        if purpose == "events":
            recorder = self._construct(self.aggregate_recorder_class)
        else:
            recorder = self._construct(self.snapshot_recorder_class, purpose=purpose)
        return recorder

    def application_recorder(self) -> ApplicationRecorder:
        """Construct the recorder of an application."""
        kind = self._kind(self.APPLICATION_RECORDER_TOPIC, self.application_recorder_class)
        recorder: ApplicationRecorder = self._construct(kind)
        return recorder

    def tracking_recorder(self, tracking_recorder_class: type[TTrackingRecorder] | None = None) -> TTrackingRecorder:
        """Construct the recorder of a projection, of the given class."""
        kind = tracking_recorder_class or self._kind(self.TRACKING_RECORDER_TOPIC, self.tracking_recorder_class)
        recorder: TTrackingRecorder = self._construct(kind)
        return recorder

    def process_recorder(self) -> ProcessRecorder:
        """Construct the recorder of an application that processes another's events."""
        kind = self._kind(self.PROCESS_RECORDER_TOPIC, self.process_recorder_class)
        recorder: ProcessRecorder = self._construct(kind)
        return recorder

    def env_create_table(self) -> bool:
        """Say whether recorders make their tables."""
        return strtobool(self.env.get(self.CREATE_TABLE) or "yes")

    def close(self) -> None:
        """Let go of the database."""
        self.datastore.close()

    def _kind(self, variable: str, default: type[Any]) -> type[Any]:
        topic = self.env.get(variable)
        kind = resolve_topic(topic) if topic else default
        if not (isinstance(kind, type) and issubclass(kind, default)):
            raise OSError(f"{variable} names {topic}, which is no subclass of {default.__name__}")
        return kind

    def _construct(self, kind: type[Any], **options: str) -> Any:
        recorder = kind(self.datastore, application_name=self.env.name, **options)
        if self.env_create_table():
            recorder.create_table()
        return recorder


def chosen_id_type(env: Environment) -> IdType:
    """
    Return how originator ids are written, by ORIGINATOR_ID_TYPE.

    Raises:
        OSError: it is neither `uuid` nor `text`.
    """
    chosen = env.get("ORIGINATOR_ID_TYPE", "uuid").lower()
    if chosen not in ("uuid", "text"):
        raise OSError(f"ORIGINATOR_ID_TYPE is {chosen!r}: it must be uuid or text")
    return "uuid" if chosen == "uuid" else "text"


def whole_number(env: Environment, variable: str) -> int | None:
    """
    Return the number that a variable holds; None where it is empty.

    Raises:
        OSError: it is no whole number.
    """
    text = (env.get(variable) or "").strip()
    try:
        return int(text) if text else None
    except ValueError:
        raise OSError(f"{variable} is {text!r}: it must be a whole number, or empty") from None


def refuse_many_tracking_rows(env: Environment) -> None:
    """Raise OSError where a row per processed event is asked for: one per application is kept here."""
    if not strtobool(env.get("SINGLE_ROW_TRACKING") or "yes"):
        raise OSError("SINGLE_ROW_TRACKING is off, and these recorders keep one tracking row per application")
