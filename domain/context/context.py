"""The base of contexts of every kind: a journal, versions, a past, and other writers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from ..concurrency.threads import in_thread
from ..errors import NotFoundError
from ..ids import Address, microseconds, parse_address, split_stream_id
from ..log.envelope import RecordedEvent
from ..log.ports import Log
from ..positions import Moment
from .journal import Journal


def resolve_version(
    log: Log, stream: str, address: int | str | datetime | Moment, *, head: int, names: Mapping[str, int]
) -> int:
    """
    Return the version of `stream` that `address` means; `head` is the newest, `names` the names given so far.

    A negative number counts back from the head: -1 is the version before it.

    Raises:
        InvalidInputError: the address is malformed.
        NotFoundError: no such version or name.
    """
    parsed: Address = parse_address(address)
    if isinstance(parsed, int):
        version = parsed if parsed >= 0 else head + parsed
        if not 0 <= version <= head:
            raise NotFoundError(f"{stream} has no version {parsed}: it goes from 0 to {head}")
        return version
    if isinstance(parsed, datetime):
        return min(head, log.version_at(stream, microseconds(parsed)))
    if isinstance(parsed, Moment):
        return min(head, log.version_at(stream, parsed))
    if parsed not in names:
        known = ", ".join(sorted(names)) or "none yet"
        raise NotFoundError(f"{stream} has no version named {parsed!r} (names: {known})")
    return names[parsed]


T = TypeVar("T")
Self = TypeVar("Self", bound="Context")


class Context:
    """A context that can be changed; what it holds is the folded state of its journal, which has `names`."""

    _journal: Journal[Any]

    def _naming(self, name: str, version: int) -> object:
        """Return the command that gives a version a name."""
        raise NotImplementedError

    def _forget_shown(self) -> None:
        """Let go of what was made for showing; the state is read again at the next use."""

    @property
    def id(self) -> str:
        """The context's id within its store; "detached" without one."""
        return split_stream_id(self._journal.place.stream)[1]

    @property
    def stream_kind(self) -> str:
        """The kind of context: the first part of its stream's id."""
        return split_stream_id(self._journal.place.stream)[0]

    @property
    def came_between(self) -> tuple[RecordedEvent, ...]:
        """Events that others had recorded when the last call of this context came second; else empty."""
        return self._journal.came_between

    # The past

    def version_at(self, moment: int | str | datetime | Moment) -> int:
        """
        Return the version that an address means: a version, a time, a position of the log, or a name.

        An int is a version, negative from the head (-1: the version before it); an aware datetime, or ISO
        text with a zone, a time; `"pos:P"` a position; any other text a name.

        Raises:
            NotFoundError: no such version or name.
            InvalidInputError: the text is none of these, or a time without a zone.
        """
        self.flush()
        journal = self._journal
        is_name = isinstance(moment, str) and moment[:1].isalpha() and not moment.startswith("pos:")
        names = journal.state.names if is_name else {}
        if not isinstance(moment, int):
            journal.require_known()
        return resolve_version(journal.log, journal.place.stream, moment, head=journal.version, names=names)

    def name_version(
        self,
        name: str,
        version: int | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """
        Give a version (the present one by default) a name, and return the version.

        The same name given to another version moves it. A repetition under an idempotency key returns the version that
        was named the first time.

        Raises:
            InvalidInputError: the name does not start with a letter, or holds `@`, `:`, `..` or a blank.
            NotFoundError: there is no such version.
        """
        journal = self._journal
        call = ("name_version", name, version)
        named = journal.version if version is None else version
        if not 0 < named <= self._journal.version:
            stream = self._journal.place.stream
            raise NotFoundError(f"{stream} has no version {named}: it is at {self._journal.version}")
        _ = self._journal.state
        command = self._naming(name, named)
        outcome = journal.execute(
            command, call=call, expected_version=expected_version, idempotency_key=idempotency_key
        )
        first: Any = outcome.events[0] if outcome.replayed and outcome.events else None
        return named if first is None else int(first.version)

    def names(self) -> dict[str, int]:
        """Return the names given so far and the versions they stand for."""
        return dict(self._journal.state.names)

    def recorded_events(self, *, after: int = 0, until: int | None = None) -> list[RecordedEvent]:
        """Return the recorded events themselves: versions above `after`, up to and including `until`."""
        self.flush()
        journal = self._journal
        return journal.log.read(journal.place.stream, after=after, until=until, known=journal.known)

    # Other writers, and the disk

    def refresh(self) -> tuple[RecordedEvent, ...]:
        """
        Catch up with what others wrote, and return it.

        Raises:
            LogWentBackError: the database lacks what this view shows, as after the restore of an older copy; the view
                is as it was, and `cleanup()` makes it go on from what there is.
        """
        return self._journal.refresh()

    def rebase(self: Self, change: Callable[[Self], T]) -> T:
        """
        Refresh, run `change(self)`, and do so again as long as another writer comes first.

        Raises:
            ConcurrencyError: it did so a hundred times.
        """
        result: T = self._journal.retry(lambda: change(self))
        return result

    def cleanup(self) -> None:
        """
        Let go of what the view holds, and record nothing; the next use reads the context again, as the log has it.

        So a context goes on from what there is when its database went back (LogWentBackError).

        To take everything out of the view, `clear()`.
        """
        self._journal.forget()
        self._forget_shown()

    def flush(self) -> None:
        """
        Wait until everything queued is on disk; does nothing with durability "commit".

        Raises:
            ConcurrencyError, IdempotencyError, StorageError: with `refused`, the events that did not get in; the
                view has been set back to what is on disk.
        """
        self._journal.flush()

    async def aflush(self) -> None:
        """`flush()` for a running event loop."""
        await in_thread(self.flush)
