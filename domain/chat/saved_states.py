"""Data that a framework saves beside the items of a chat: checkpoints, channels, usage, state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..arguments import require_instance, require_limits
from ..canonical import canonical_json, parse_json, require_unicode
from ..context.context import Context
from .events import StateSaved
from .rules.commands import SaveStates
from .state.fold import ChatState

# A framework usually saves with every step, so its newest data is among the last few events.
FIRST_LOOK_EVENTS = 32


class SavedState(NamedTuple):
    """Data under a key, and the version of the chat that saved it; `value` is None if that version deleted it."""

    key: str
    value: dict[str, Any] | None
    version: int


class SavedStates:
    """
    The data that frameworks saved in a chat, `chat.saved_states`. Adapters use it; the model is never sent any of it.

    Each framework has keys of its own. Everything that was saved stays in the log: a view of the past shows what was
    saved by then. A fork begins with none.
    """

    def __init__(self, context: Context[ChatState]) -> None:
        self._context = context

    def save(
        self,
        framework: str,
        values: Mapping[str, dict[str, Any] | None],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """
        Save JSON objects by key, all or none; None deletes. Return the version of the last of them.

        Raises:
            InvalidInputError: a name is no text, or a value cannot be kept as a JSON object.
            ConcurrencyError: the chat is not at `expected_version`.
        """
        framework = require_unicode(framework, "the framework")
        plain = [(require_unicode(key, "the key"), value) for key, value in values.items()]
        saved = tuple(StateSaved(framework=framework, key=key, value=_stored(key, value)) for key, value in plain)
        outcome = self._context._record(
            SaveStates(saved), expected_version, idempotency_key, catch_up=True, call=("save_states", saved)
        )
        return outcome.version

    def last(self, framework: str, prefix: str = "") -> SavedState | None:
        """
        Return what was saved last under a key that begins with `prefix`; None if nothing was.

        The events are read from the end, which is fast if a framework saves often.
        """
        events = self._backwards()
        return next((_saved_in(event, at) for at, event in events if _is_about(event, framework, prefix)), None)

    def all(self, framework: str, *, after: int = 0) -> list[SavedState]:
        """Return what was saved in versions above `after`, in their order; also what was replaced or deleted since."""
        require_limits(after=after)
        events = self._events(after, self._context.version)
        return [_saved_in(event, version) for version, event in events if _is_about(event, framework, "")]

    def at(self, version: int) -> SavedState | None:
        """Return what the event of a version saved; None if it saved nothing."""
        if version <= self._context.version:
            found = self._events(version - 1, version) if version > 0 else []
        else:
            # Another writer may have saved it, and this handle may be behind.
            recorded = self._context.recorded_events(after=version - 1, until=version)
            found = [(one.version, one.event) for one in recorded]
        return next((_saved_in(event, number) for number, event in found if isinstance(event, StateSaved)), None)

    def _events(self, after: int, until: int) -> list[tuple[int, Any]]:
        """Return events of this context with their versions, including those of an open transaction."""
        return list(enumerate(self._context._journal.events(after=after, until=until), after + 1))

    def _backwards(self) -> Iterator[tuple[int, Any]]:
        until, count = self._context.version, FIRST_LOOK_EVENTS
        while until > 0:
            after = max(0, until - count)
            yield from reversed(self._events(after, until))
            until, count = after, count * 2


def _is_about(event: Any, framework: str, prefix: str) -> bool:
    return isinstance(event, StateSaved) and event.framework == framework and event.key.startswith(prefix)


def _saved_in(event: StateSaved, version: int) -> SavedState:
    return SavedState(event.key, parse_json(event.value) if event.value else None, version)


def _stored(key: str, value: dict[str, Any] | None) -> bytes:
    if value is None:
        return b""
    what = f"the value of {key!r}"
    given: Any = value
    return canonical_json(require_instance(given, dict, what, "give a dict, or None to delete"), what=what)
