"""A memory store that records every change as an event: what was remembered when, by whom, and what it replaced."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from ..arguments import refuse_copy, require_instance, require_optional, require_whole
from ..canonical import Without, require_unicode
from ..concurrency.locks import fork_safe_lock, renew_in_child, synchronized
from ..content import stored_content
from ..context.context import Attachment, Context, detached_attachment
from ..context.folded_stream import Place
from ..context.journal import Journal, Outcome
from ..errors import DecisionRefusedError, InvalidInputError, ReadOnlyError
from ..ids import decoded_id, encoded_id, microseconds, stream_id
from ..log.envelope import NO_TRACE, Trace
from ..log.ports import NewEvents
from ..named_events import recorded_event
from ..positions import Moment
from .events import MemoryForgotten, MemoryRestored
from .records import MemoryChange, MemoryKind, MemoryRecord
from .rules import MEMORIES, Forget, Remember, Restore
from .state import Held, MemoryState, changed_keys, changes_of, forgotten

SEARCH_LIMIT = 100
T = TypeVar("T")
# The number of scopes whose folded state stays in memory; any other scope is read again at its next use.
SCOPES_MAX = 256
# Held so that threads that share a scope begin it again only once.
BEGINNING = fork_safe_lock()


class MemoryScope(Context[MemoryState]):
    """
    The memory of one user, session or any other scope: a context with versions and a past.

    `memory.scope(name)` gives one. It shows the records as of its last refresh; a `Memory` refreshes before each read.
    """

    def __init__(self, attachment: Attachment, place: Place, trace: Trace) -> None:
        self._trace = trace
        self._stand_on(_journal_in(attachment, place), attachment)

    @property
    def scope(self) -> str:
        """The name of the scope."""
        return decoded_id(self.id)

    def get(self, key: str) -> MemoryRecord | None:
        """Return the record under a key, or None."""
        held = self._state.records.get(require_unicode(key, "the key"))
        return None if held is None else held.record_in(self.scope)

    def search(
        self,
        *,
        kind: MemoryKind | str | None = None,
        key_prefix: str | None = None,
        tag: str | None = None,
        limit: int = SEARCH_LIMIT,
    ) -> list[MemoryRecord]:
        """
        Return the newest records, `limit` at most, that pass all filters; `key_prefix` has no wildcards.

        Raises:
            InvalidInputError: there is no such kind, or the limit is negative or no whole number.
        """
        require_whole(limit, "limit")
        key_prefix, tag = require_optional(key_prefix, "key_prefix"), require_optional(tag, "tag")
        wanted = None if kind is None else _kind(kind)

        def passes(held: Held) -> bool:
            event = held.event
            return (
                (wanted is None or event.kind == wanted)
                and (key_prefix is None or event.key.startswith(key_prefix))
                and (tag is None or tag in event.tags)
            )

        found = [held for held in self._state.newest_first() if passes(held)]
        return [held.record_in(self.scope) for held in found[:limit]]

    @property
    def is_ahead(self) -> bool:
        """Whether a record was put that may not be in the log yet."""
        return self._journal.is_ahead

    def put(
        self, record: MemoryRecord, *, expected_version: int | None = None, idempotency_key: str | None = None
    ) -> None:
        """
        Remember a record. It replaces the record under its key and keeps the `timestamp` of that one.

        Raises:
            InvalidInputError: it is of another scope, or has a value that cannot be stored.
        """
        require_instance(record, MemoryRecord, "the record", "give a MemoryRecord")
        if record.scope != self.scope:
            raise InvalidInputError(f"the record is of the scope {record.scope!r}, not of {self.scope!r}")
        command = Remember(
            key=require_unicode(record.key, "the key"),
            value=stored_content(record.value, f"the value of {record.key!r}"),
            kind=_kind(record.kind),
            tags=tuple(require_unicode(tag, "a tag") for tag in record.tags),
            first_at=_microseconds(record.timestamp),
            now=int(self._attachment.system.now() * 1_000_000),
        )
        # A repeated call has later times, and is still the same call.
        made_up = ("now",) if "timestamp" in record.model_fields_set else ("now", "first_at")
        call = Without(command, *made_up)
        self._record(command, expected_version, idempotency_key, catch_up=True, call=call)

    def forget(
        self,
        key: str | None = None,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """
        Forget a key, or all keys, and return the number of forgotten records; `restore` brings them back.

        Raises:
            ConcurrencyError: another writer came first.
        """
        command = Forget(require_optional(key, "the key"), require_optional(reason, "the reason"))
        outcome = self._record(command, expected_version, idempotency_key, catch_up=False)
        return sum(-event.change.items for event in outcome.events if isinstance(event, MemoryForgotten))

    def restore(
        self, key: str | None = None, *, expected_version: int | None = None, idempotency_key: str | None = None
    ) -> int:
        """
        Restore the record that was last forgotten under a key, or under every key that has no record now; return their
        number.

        The records are as they were, with their times.

        Raises:
            NotFoundError: no record under this key was forgotten and not restored.
            ConcurrencyError: another writer came first.
        """
        key = require_optional(key, "the key")
        call = ("restore", key)
        outcome = self._writer.repeated(call, idempotency_key)
        if outcome is None:
            self.flush()
            # These include the records that were decided in an open transaction.
            events: list[Any] = self._journal.events(until=self.version)
            items = forgotten(list(map(recorded_event, events)), self.stream_id, key)
            command = Restore(self.stream_id, tuple(held for held, _ in items))
            outcome = self._record(command, expected_version, idempotency_key, catch_up=False, call=call)
        return sum(event.change.items for event in outcome.events if isinstance(event, MemoryRestored))

    def history(self, key: str | None = None) -> list[MemoryChange]:
        """
        Return the changes of a key, or of every key, the oldest first: who changed it when, from what, to what.

        Raises:
            DecisionRefusedError: an open transaction changed the key.
        """
        version, key = self.version, require_optional(key, "the key")
        recorded = self.recorded_events(until=version)
        known = self._journal.known.version
        if known < version:
            decided: list[Any] = self._journal.events(until=version)
            keys = changed_keys(list(map(recorded_event, decided)), after=known)
            if keys and key in (None, *keys):
                raise DecisionRefusedError(
                    "the changes of a key can be read when the transaction that changes it has ended"
                )
        return changes_of(recorded[:known], self.scope, key)

    def at(self, moment: int | str | datetime | Moment) -> ScopeAt:
        """
        Return the scope as it was: at a version, a time, a position of the log, or a named version.

        Raises:
            NotFoundError, InvalidInputError: as for `version_at`.
        """
        return self._view(ScopeAt, self.version_at(moment))

    def adopted_events(self, stream: str, *, root: str) -> list[NewEvents]:
        """
        Return the events that a store must append to store this detached scope as `stream`.

        Raises:
            InvalidInputError: it is empty, so that there is nothing to append.
        """
        if not self.version:
            raise InvalidInputError(f"nothing was ever remembered in {self.scope!r}: there is nothing to adopt")
        return super().adopted_events(stream, root=root)

    def _record(
        self,
        command: object,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        *,
        catch_up: bool = False,
        call: object = None,
    ) -> Outcome:
        if self._journal.is_void:
            self._begin_again()
        elif not self.version and not self.is_ahead:
            self.refresh()
        return super()._record(command, expected_version, idempotency_key, catch_up=catch_up, call=call)

    def _begin_again(self) -> None:
        # No event opens a scope, so a scope can begin again when its first records were rolled back.
        with BEGINNING:
            if self._journal.is_void:
                self._stand_on(_journal_in(self._attachment, self._journal.place), self._attachment)


class ScopeAt(MemoryScope):
    """A read-only scope: as it was at a version, or a live view."""


def _journal_in(attachment: Attachment, place: Place) -> Journal[MemoryState]:
    version, digest = attachment.log.end(place.stream)
    return Journal(
        attachment.log,
        place,
        MEMORIES,
        version=version,
        digest=digest,
        durability=attachment.durability,
        unflushed=attachment.unflushed,
    )


def _kind(kind: MemoryKind | str) -> str:
    try:
        return MemoryKind(kind).value
    except ValueError as error:
        known = ", ".join(MemoryKind)
        raise InvalidInputError(f"there is no kind {kind!r} of memory: take one of {known}") from error


def _microseconds(time: datetime) -> int:
    if time.tzinfo is None:
        raise InvalidInputError(f"the timestamp {time} has no time zone: give one, such as datetime.UTC")
    return microseconds(time)


class Memory:
    """
    A `MemoryStore` on a log: `store.memory()` gives one that is stored, `InMemoryMemoryStore()` one in memory only.

    The name of a scope can take up to 255 bytes. A read sees all records that any writer has put so far.
    """

    __reduce__ = refuse_copy

    def __init__(self, attachment: Attachment, *, trace: Trace = NO_TRACE) -> None:
        self._attachment, self._trace = attachment, trace
        self._scopes: OrderedDict[str, MemoryScope] = OrderedDict()
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def scope(self, scope: str) -> MemoryScope:
        """
        Return one scope, as a context with versions and a past; it may be empty.

        Raises:
            InvalidInputError: this cannot be the name of a scope.
        """
        context_id = encoded_id(scope, f"the scope {scope!r}")
        return self._opened(scope, context_id)

    @synchronized
    def _opened(self, scope: str, context_id: str) -> MemoryScope:
        found = self._scopes.get(scope)
        if found is None:
            place = Place(stream_id("memory", context_id), context_id)
            found = self._scopes[scope] = MemoryScope(self._attachment, place, self._trace)
        self._scopes.move_to_end(scope)
        self._release_scopes()
        return found

    async def get(self, *, scope: str, key: str) -> MemoryRecord | None:
        """Return the record with this scope and key, or None."""
        return await self._read(scope, lambda found: found.get(key))

    async def search(
        self,
        *,
        scope: str,
        kind: MemoryKind | None = None,
        key_prefix: str | None = None,
        tag: str | None = None,
        limit: int = SEARCH_LIMIT,
    ) -> list[MemoryRecord]:
        """
        Return the newest records of a scope, `limit` at most, that pass all filters.

        Raises:
            InvalidInputError: there is no such kind, or the limit is negative or no whole number.
        """
        return await self._read(
            scope, lambda found: found.search(kind=kind, key_prefix=key_prefix, tag=tag, limit=limit)
        )

    async def history(self, *, scope: str, key: str | None = None) -> list[MemoryChange]:
        """Return the changes of a key, or of every key of a scope: who changed it when, from what, to what."""
        return await self._read(scope, lambda found: found.history(key))

    def _release_scopes(self) -> None:
        """Release the least recently used scopes, except those with records that are not in the log yet."""
        too_many = len(self._scopes) - SCOPES_MAX
        if too_many > 0:
            for scope in [name for name, one in self._scopes.items() if not one.is_ahead][:too_many]:
                del self._scopes[scope]

    async def put(
        self, record: MemoryRecord, *, expected_version: int | None = None, idempotency_key: str | None = None
    ) -> None:
        """
        Remember a record. It replaces the record with its scope and key and keeps the `timestamp` of that one.

        Raises:
            InvalidInputError: it has a value that cannot be stored, or its scope is not valid.
        """
        require_instance(record, MemoryRecord, "the record", "give a MemoryRecord")
        await self._changed(
            lambda: self.scope(record.scope).put(
                record, expected_version=expected_version, idempotency_key=idempotency_key
            )
        )

    async def forget(
        self, *, scope: str, key: str | None = None, reason: str | None = None, idempotency_key: str | None = None
    ) -> int:
        """
        Forget a key, or a whole scope, and return the number of forgotten records.

        They can still be read in the past, and `restore` brings them back.

        Raises:
            ConcurrencyError: another writer came first.
        """
        return await self._changed(
            lambda: self._refreshed(scope).forget(key, reason=reason, idempotency_key=idempotency_key)
        )

    async def restore(self, *, scope: str, key: str | None = None, idempotency_key: str | None = None) -> int:
        """
        Restore the record that was last forgotten under a key, or under every key that has no record now; return their
        number.

        Raises:
            NotFoundError: no record under this key was forgotten and not restored.
            ConcurrencyError: another writer came first.
        """
        return await self._changed(lambda: self._refreshed(scope).restore(key, idempotency_key=idempotency_key))

    def at(self, moment: int | str | datetime | Moment) -> MemoryAt:
        """Return the memory as it was at a time or a position of the log; a version or a name applies to each scope."""
        return MemoryAt(self, moment)

    async def _read(self, scope: str, read: Callable[[MemoryScope], T]) -> T:
        return await self._attachment.waiting(lambda: read(self._refreshed(scope)))

    async def _changed(self, change: Callable[[], T]) -> T:
        return await self._attachment.waiting(change)

    def _refreshed(self, scope: str) -> MemoryScope:
        found = self.scope(scope)
        # While a record that was put here is on its way to the log, the view has it already. Events of other writers
        # can only follow it.
        if not found.is_ahead:
            found.refresh()
        return found


class InMemoryMemoryStore(Memory):
    """A memory that lives as long as its process."""

    def __init__(self) -> None:
        super().__init__(detached_attachment())


class MemoryAt(Memory):
    """A read-only memory as it was at one moment."""

    def __init__(self, shown: Memory, moment: int | str | datetime | Moment) -> None:
        self._shown, self._moment, self._attachment = shown, moment, shown._attachment

    def __repr__(self) -> str:
        return f"MemoryAt({self._moment!s})"

    def scope(self, scope: str) -> MemoryScope:
        """
        Return one scope as it was.

        Raises:
            NotFoundError: it has no such version or name.
        """
        return self._shown.scope(scope).at(self._moment)

    def at(self, moment: int | str | datetime | Moment) -> MemoryAt:
        """Return the memory as it was at another moment."""
        return self._shown.at(moment)

    def _refreshed(self, scope: str) -> MemoryScope:
        return self._shown._refreshed(scope).at(self._moment)

    async def _changed(self, change: Callable[[], T]) -> T:
        raise ReadOnlyError("this memory is a view of the past and cannot be changed: change the one it shows")
