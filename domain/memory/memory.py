"""A memory store whose every change is an event: what was remembered when, by whom, and what it replaced (SPEC A4)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import NoReturn, TypeVar

from ..encoded_ids import encoded_id
from ..home import Home
from ..homed import detached_home
from ..locks import synchronized
from ..pool.read_only import ReadOnlyError
from ..positions import Moment
from ..process_forks import renew_in_child
from ..streams import stream_id
from ..threads import finished_in_thread
from ..tracing import NO_TRACE, Trace
from ..view import Place
from .records import MemoryChange, MemoryKind, MemoryRecord
from .scope import SEARCH_LIMIT, MemoryScope, ScopeAt

T = TypeVar("T")
# Scopes whose folded state stays in memory; any other is read again at its next use.
SCOPES_MAX = 256


class ReadableMemory:
    """What can be read of a memory, at whichever moment."""

    async def _read(self, scope: str, read: Callable[[MemoryScope | ScopeAt], T]) -> T:
        """Return what `read` finds in a scope, without holding up a running event loop."""
        raise NotImplementedError

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
        Return the newest records of a scope, `limit` at most, of those that pass all filters (SPEC A4.3, A4.5).

        Raises:
            InvalidInputError: there is no such kind, or the limit is negative.
        """
        return await self._read(
            scope, lambda found: found.search(kind=kind, key_prefix=key_prefix, tag=tag, limit=limit)
        )

    async def history(self, *, scope: str, key: str | None = None) -> list[MemoryChange]:
        """Return what became of a key, or of every key of a scope: who changed it when, from what, to what."""
        return await self._read(scope, lambda found: found.history(key))


class Memory(ReadableMemory):
    """
    A `MemoryStore` on a log: `store.memory()` gives one that is kept, `InMemoryMemoryStore()` one that is not.

    A scope may have any name that takes up to 255 bytes. Reading sees what any writer has put so far.
    """

    def __init__(self, home: Home, *, trace: Trace = NO_TRACE) -> None:
        self._home, self._trace = home, trace
        self._scopes: OrderedDict[str, MemoryScope] = OrderedDict()
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def scope(self, scope: str) -> MemoryScope:
        """
        Return one scope, as a context with versions and a past; it need not hold anything yet.

        Raises:
            InvalidInputError: there can be no scope of this name.
        """
        context_id = encoded_id(scope, f"the scope {scope!r}")
        return self._opened(scope, context_id)

    @synchronized
    def _opened(self, scope: str, context_id: str) -> MemoryScope:
        found = self._scopes.get(scope)
        if found is None:
            place = Place(stream_id("memory", context_id), context_id)
            found = self._scopes[scope] = MemoryScope(self._home, place, self._trace)
        self._scopes.move_to_end(scope)
        self._let_go()
        return found

    def _let_go(self) -> None:
        """Forget the scopes that were not used for longest; what is on its way to the log stays."""
        too_many = len(self._scopes) - SCOPES_MAX
        if too_many > 0:
            for scope in [name for name, one in self._scopes.items() if not one.is_ahead][:too_many]:
                del self._scopes[scope]

    async def put(
        self, record: MemoryRecord, *, expected_version: int | None = None, idempotency_key: str | None = None
    ) -> None:
        """
        Remember a record, in the place of the one with its scope and key, whose `timestamp` it keeps (SPEC A4.3).

        Raises:
            InvalidInputError: it holds what cannot be stored, or its scope cannot be one.
        """
        await self._waiting(
            lambda: self.scope(record.scope).put(
                record, expected_version=expected_version, idempotency_key=idempotency_key
            )
        )

    async def forget(
        self, *, scope: str, key: str | None = None, reason: str | None = None, idempotency_key: str | None = None
    ) -> int:
        """
        Forget a key, or a whole scope, and return how many records that were (SPEC A4.3).

        They can be read in the past, and `restore` takes them back.

        Raises:
            ConcurrencyError: another writer came first.
        """
        return await self._waiting(
            lambda: self._refreshed(scope).forget(key, reason=reason, idempotency_key=idempotency_key)
        )

    async def restore(self, *, scope: str, key: str | None = None, idempotency_key: str | None = None) -> int:
        """
        Take back what was forgotten last under a key, or under every key that is not remembered anew; return how many
        records that were.

        Raises:
            NotFoundError: nothing was forgotten under this key that is not back.
            ConcurrencyError: another writer came first.
        """
        return await self._waiting(lambda: self._refreshed(scope).restore(key, idempotency_key=idempotency_key))

    def at(self, moment: int | str | datetime | Moment) -> MemoryAt:
        """Return the memory as it was: at a time or a position of the log; a version or a name is one of each scope."""
        return MemoryAt(self, moment)

    async def _read(self, scope: str, read: Callable[[MemoryScope | ScopeAt], T]) -> T:
        return await self._waiting(lambda: read(self._refreshed(scope)))

    def _refreshed(self, scope: str) -> MemoryScope:
        found = self.scope(scope)
        # What was put here and is on its way counts, and what others wrote comes behind it.
        if not found.is_ahead:
            found.refresh()
        return found

    async def _waiting(self, work: Callable[[], T]) -> T:
        """Do what may wait for a disk in a thread, so that the loop goes on; the rest right here."""
        return work() if self._home.is_detached else await finished_in_thread(work)


class InMemoryMemoryStore(Memory):
    """A memory that lives as long as its process."""

    def __init__(self) -> None:
        super().__init__(detached_home())


class MemoryAt(ReadableMemory):
    """A memory as it was at a moment; it can be read only."""

    def __init__(self, shown: Memory, moment: int | str | datetime | Moment) -> None:
        self._shown, self._moment = shown, moment

    async def _read(self, scope: str, read: Callable[[MemoryScope | ScopeAt], T]) -> T:
        return await self._shown._waiting(lambda: read(self._shown._refreshed(scope).at(self._moment)))

    async def put(self, record: MemoryRecord) -> NoReturn:
        """
        Refuse: the past cannot be changed.

        Raises:
            ReadOnlyError: always.
        """
        raise _refusal()

    async def forget(self, *, scope: str, key: str | None = None) -> NoReturn:
        """
        Refuse: the past cannot be changed.

        Raises:
            ReadOnlyError: always.
        """
        raise _refusal()


def _refusal() -> ReadOnlyError:
    return ReadOnlyError("this memory is a view of the past and cannot be changed: change the one it shows")
