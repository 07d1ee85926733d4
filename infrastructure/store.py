"""The store: what `refold.open()` gives, and the one place where contexts, log and projections come together."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

from ..domain.chat.context import ChatContext
from ..domain.concurrency.threads import in_thread
from ..domain.context.journal import Journal
from ..domain.context.transaction import Transaction, transaction
from ..domain.context.view import Durability, Place
from ..domain.errors import ConcurrencyError, IdempotencyError, InvalidInputError, StorageError
from ..domain.ids import stream_id
from ..domain.log.ports import LiveLog, NewEvents
from ..domain.memory import MemoryScope
from ..domain.moments import MomentNames
from ..domain.pool import ContextPool, ContextQueue
from ..domain.positions import BEGINNING, Moment
from ..domain.trajectory import Run, RunFactory
from ..domain.window import ContextWindow
from ..projections.catalogue import CATALOGUE
from ..projections.contract import Projection
from ..projections.entries import ENTRIES
from ..projections.growth import GROWTH
from ..projections.lineage import LINEAGE
from ..projections.rollup import ROLLUP
from ..projections.search import SEARCH
from ..projections.trajectory_tables import RUN_TABLES
from ..projections.transitions import TRANSITIONS
from ..projections.usage import USAGE
from ..projections.validity import VALIDITY
from .exits import flush_at_exit, warn_of_unclosed
from .projecting.runner import ProjectionRunner
from .projecting.store import ProjectionStore
from .queries.moments import LogEnd
from .store_audits import AuditsOfStore
from .store_projections import ProjectionsOfStore
from .store_times import TimesOfStore
from .subscribed import wanted
from .subscription import Cursor, Subscription

PROJECTIONS: tuple[Projection, ...] = (
    CATALOGUE,
    ROLLUP,
    GROWTH,
    SEARCH,
    TRANSITIONS,
    VALIDITY,
    ENTRIES,
    LINEAGE,
    USAGE,
    *RUN_TABLES,
)
Adopted = TypeVar("Adopted", ChatContext, ContextQueue[Any], ContextPool[Any], ContextWindow, MemoryScope, Run)


class Store(TimesOfStore, AuditsOfStore, ProjectionsOfStore):
    """
    Contexts that are kept, in an SQLite file, in PostgreSQL or in memory: the calls are the same.

    Its methods may be called from any thread. Those that touch the disk have a twin with an `a` in front for
    use in a running event loop.
    """

    def __init__(
        self,
        log: LiveLog,
        projections: ProjectionStore,
        *,
        durability: Durability = "commit",
        opened_at: str | None = None,
    ) -> None:
        self.log = log
        self._durability = durability
        self._projections = projections
        self._runner = ProjectionRunner(log, projections, PROJECTIONS)
        self._unflushed: set[Journal[Any]] = set()
        self._runs = RunFactory(self._home(durability))
        self._moments = MomentNames(self._home("commit"))
        self._end = LogEnd(log)
        flush_at_exit(self._unflushed)
        self._warning = None if opened_at is None else warn_of_unclosed(self, opened_at)

    def adopt(self, context: Adopted, context_id: str) -> Adopted:
        """
        Write a detached context, with its whole past, into this store; from then on it is kept here.

        What it was forked from, and what was merged into it, comes along under ids made from `context_id`.

        Raises:
            InvalidInputError: it is kept in a store already, the id cannot be one, or a run goes back over rounds that
                are others here.
            ConcurrencyError: there is a context with this id.
        """
        kind = context.stream_kind
        if not context.is_detached:
            raise InvalidInputError(f"{kind} context {context.id!r} is kept in a store already: fork or branch it")
        place = Place(stream_id(kind, context_id), context_id)
        context.flush()
        self.log.append(self._missing(context.adopted_events(place.stream, root=place.root), place.stream)).result()
        context.attach(self.log, place, self._durability, self._unflushed)
        if isinstance(context, Run):
            self._runs.keep(context)
        return context

    def _missing(self, parts: list[NewEvents], adopted: str) -> list[NewEvents]:
        """Return the streams that are to be written: an earlier round of a run may be here already."""
        missing: list[NewEvents] = []
        for new in parts:
            here = [] if new.stream == adopted else self.log.read_events(new.stream, until=len(new.events))
            if not here:
                missing.append(new)
            elif here != list(new.events):
                raise InvalidInputError(f"{new.stream} is here already, and is another than {adopted} goes back over")
        return missing

    async def aadopt(self, context: Adopted, context_id: str) -> Adopted:
        """`adopt()` for a running event loop."""
        return await in_thread(self.adopt, context, context_id)

    def transaction(self, *, idempotency_key: str | None = None) -> AbstractContextManager[Transaction]:
        """
        Commit all changes to contexts of this store made within the block as one, or none of them.

        A rolled-back transaction restores every view.
        """
        return transaction(self.log, idempotency_key=idempotency_key)

    def now(self) -> Moment:
        """Return the moment of the last event: where a subscription to everything new would start."""
        return self.log.now()

    def subscribe(
        self,
        *,
        after: Moment | None = None,
        kinds: Iterable[str] | None = None,
        contexts: Iterable[str] | None = None,
        name: str | None = None,
    ) -> Subscription:
        """
        Return an endless iterator, for `for` or `async for`, over the events behind `after`, from the past into the
        present; from the beginning where it is left out.

        `kinds` wants those of some kinds of contexts alone (`"chat"`, `"run"`), `contexts` those of some, as `kind:id`.
        With a `name` the store remembers how far it was acknowledged by `ack()`, for the next one of that name to go
        on there; `after` is where the first one of all begins.

        Raises:
            InvalidInputError: there is no such kind, or a context is named without its kind, or the name cannot be one.
        """
        cursor = None if name is None else Cursor(self._projections, name)
        start = (cursor.moment if cursor else None) or after or BEGINNING
        return Subscription(self.log, after=start, wanted=wanted(kinds, contexts), cursor=cursor)

    def flush(self) -> None:
        """
        Wait until everything queued by contexts of this store is on disk.

        Raises:
            ConcurrencyError, IdempotencyError, StorageError: with `refused`, the events that did not get in.
        """
        failures: list[ConcurrencyError | IdempotencyError | StorageError] = []
        for journal in list(self._unflushed):
            try:
                journal.flush()
            except (ConcurrencyError, IdempotencyError, StorageError) as error:
                failures.append(error)
        if failures:
            # One error goes out; it tells of everything that did not get in, whichever context it was for.
            failures[0].refused = tuple(event for failure in failures for event in failure.refused)
            raise failures[0]

    async def aflush(self) -> None:
        """`flush()` for a running event loop."""
        await in_thread(self.flush)

    def close(self) -> None:
        """Finish what was queued, then let go of the database; may be called twice."""
        if self._warning is not None:
            self._warning.detach()
        try:
            self.flush()
        finally:
            self.log.close()

    async def aclose(self) -> None:
        """`close()` for a running event loop."""
        await in_thread(self.close)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
