"""
The factory that `PERSISTENCE_MODULE=refold.infrastructure.postgres` names.

The variables are those of `eventsourcing.postgres` and mean the same, with one exception: the database functions
that POSTGRES_ENABLE_DB_FUNCTIONS asks for lose events for readers and drop tracking, so they are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventsourcing.utils import Environment, EnvType, resolve_topic, strtobool

from ..factory import RecorderFactory, chosen_id_type, refuse_many_tracking_rows, whole_number
from .datastore import PostgresDatastore, PostgresSettings
from .recorders import (
    PostgresAggregateRecorder,
    PostgresApplicationRecorder,
    PostgresProcessRecorder,
    PostgresSnapshotRecorder,
    PostgresTrackingRecorder,
)

# Where a variable says nothing, the setting's own default holds.
NUMBERS = (
    "CONNECT_TIMEOUT",
    "LOCK_TIMEOUT",
    "IDLE_IN_TRANSACTION_SESSION_TIMEOUT",
    "POOL_SIZE",
    "MAX_OVERFLOW",
    "MAX_WAITING",
    "CONN_MAX_AGE",
)


class PostgresFactory(RecorderFactory[PostgresTrackingRecorder]):
    """
    Constructs recorders on one PostgreSQL database; POSTGRES_HOST may be the folder of a socket.

    Raises:
        OSError: a variable is missing or says something that cannot be done.
    """

    POSTGRES_DBNAME = "POSTGRES_DBNAME"
    POSTGRES_HOST = "POSTGRES_HOST"
    POSTGRES_PORT = "POSTGRES_PORT"
    POSTGRES_USER = "POSTGRES_USER"
    POSTGRES_PASSWORD = "POSTGRES_PASSWORD"
    POSTGRES_GET_PASSWORD_TOPIC = "POSTGRES_GET_PASSWORD_TOPIC"
    POSTGRES_SCHEMA = "POSTGRES_SCHEMA"
    POSTGRES_PRE_PING = "POSTGRES_PRE_PING"
    POSTGRES_ENABLE_DB_FUNCTIONS = "POSTGRES_ENABLE_DB_FUNCTIONS"

    aggregate_recorder_class = PostgresAggregateRecorder
    snapshot_recorder_class = PostgresSnapshotRecorder
    application_recorder_class = PostgresApplicationRecorder
    tracking_recorder_class = PostgresTrackingRecorder
    process_recorder_class = PostgresProcessRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        if strtobool(self.env.get(self.POSTGRES_ENABLE_DB_FUNCTIONS) or "no"):
            raise OSError(
                f"{self.POSTGRES_ENABLE_DB_FUNCTIONS} is on: with these functions readers miss events and tracking"
                " is dropped, so they are not used here; take the variable away"
            )
        refuse_many_tracking_rows(self.env)
        self.datastore = PostgresDatastore(self._settings())

    def _settings(self) -> PostgresSettings:
        found = {name.lower(): whole_number(self.env, f"POSTGRES_{name}") for name in NUMBERS}
        numbers: dict[str, Any] = {name: number for name, number in found.items() if number is not None}
        return PostgresSettings(
            dbname=self._required(self.POSTGRES_DBNAME),
            host=self._required(self.POSTGRES_HOST),
            user=self._required(self.POSTGRES_USER),
            port=self.env.get(self.POSTGRES_PORT) or PostgresSettings.port,
            password=self.env.get(self.POSTGRES_PASSWORD),
            get_password=self._get_password(),
            schema=(self.env.get(self.POSTGRES_SCHEMA) or "").strip(),
            originator_id_type=chosen_id_type(self.env),
            pre_ping=strtobool(self.env.get(self.POSTGRES_PRE_PING) or "no"),
            **numbers,
        )

    def _required(self, variable: str) -> str:
        value = self.env.get(variable)
        if value is None:
            keys = " or ".join(self.env.create_keys(variable))
            raise OSError(f"where PostgreSQL is, is not said: set {keys}")
        return value

    def _get_password(self) -> Callable[[], str] | None:
        topic = self.env.get(self.POSTGRES_GET_PASSWORD_TOPIC)
        return resolve_topic(topic) if topic else None
