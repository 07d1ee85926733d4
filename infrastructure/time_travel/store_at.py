"""A store as it was at a moment: every context of it at that one moment, to be read only."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...domain.chat.calls.past import ReadOnlyChatContext
from ...domain.concurrency.threads import in_thread
from ...domain.errors import NotFoundError
from ...domain.memory.memory import MemoryAt
from ...domain.pool.pool import ReadOnlyPool
from ...domain.pool.queue import ReadOnlyQueue
from ...domain.positions import Moment
from ...domain.trajectory import ReadOnlyRun
from ...domain.window.window import ReadOnlyContextWindow
from ...projections.catalogue import CATALOGUE, CatalogueRow
from .counting import CountedPast
from .moments import Cut, cut_of

if TYPE_CHECKING:
    from ..store_times import TimesOfStore


class Versioned(Protocol):
    """What is shown at a version; 0 before it began."""

    @property
    def version(self) -> int:
        """The version that is shown."""


V = TypeVar("V", bound=Versioned)


class StoreAt:
    """
    All contexts of a store as of one moment; `store.at(moment)` gives one.

    What did not exist yet is not found. Whoever forks a chat, or branches a queue or a pool, from here gets a child in
    the store of today.
    """

    def __init__(self, store: TimesOfStore, cut: Cut) -> None:
        self._store, self._cut = store, cut

    @property
    def moment(self) -> datetime | Moment:
        """The moment that is shown: a time, or a cut of the log."""
        return cut_of(self._cut)

    def chat(self, context_id: str) -> ReadOnlyChatContext:
        """
        Return a chat context as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        then = self._store.chat(context_id, create=False).at(self.moment)
        view = self._existing(then, f"chat:{context_id}")
        return ReadOnlyChatContext.of(CountedPast(view._source, self._store.log, self._store._runner))

    def queue(self, context_id: str) -> ReadOnlyQueue[Any]:
        """
        Return a context queue as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        return self._existing(self._store.queue(context_id, create=False).at(self.moment), f"queue:{context_id}")

    def pool(self, context_id: str) -> ReadOnlyPool[Any]:
        """
        Return a context pool as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        return self._existing(self._store.pool(context_id, create=False).at(self.moment), f"pool:{context_id}")

    def window(self, context_id: str) -> ReadOnlyContextWindow:
        """
        Return a context window as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        return self._existing(self._store.window(context_id, create=False).at(self.moment), f"window:{context_id}")

    def memory(self) -> MemoryAt:
        """Return the memory as it was, scope by scope."""
        return self._store.memory().at(self.moment)

    def run(self, user_id: str, session_id: str, run_id: int = 0, sub_id: int = 0) -> ReadOnlyRun:
        """
        Return a run as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        run = self._store.run(user_id, session_id, run_id, sub_id, create=False)
        return self._existing(run.at(self.moment), run.stream)

    def contexts(self) -> list[CatalogueRow]:
        """Return what is known of every context that there was, ordered by kind and id."""
        return [row for now in self._store.contexts() if (row := self._row_then(now)) is not None]

    async def acontexts(self) -> list[CatalogueRow]:
        """`contexts()` for a running event loop."""
        return await in_thread(self.contexts)

    def _row_then(self, now: CatalogueRow) -> CatalogueRow | None:
        """Only what has changed since is looked at again."""
        log = self._store.log
        version = log.version_at(now.key, self._cut)
        if version == now.version:
            return now
        if not version:
            return None
        return CATALOGUE.evolve_all(now.key, None, log.read(now.key, until=version))

    def _existing(self, view: V, stream: str) -> V:
        if not view.version:
            raise NotFoundError(f"there was no {stream} at {self.moment}: it began later")
        return view

    def __repr__(self) -> str:
        return f"StoreAt({self.moment!s})"
