"""
The store: what `refold.open()` gives, and the one place where contexts, log and projections come together.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

from ..domain.canonical import canonical_json
from ..domain.chat.context import ChatContext
from ..domain.chat.counting import TokenCounter
from ..domain.chat.events import Opened
from ..domain.chat.rules.commands import Open
from ..domain.chat.rules.decide import CHAT
from ..domain.encoded_ids import encoded_id
from ..domain.errors import ConcurrencyError, InvalidInputError, StorageError
from ..domain.home import Home
from ..domain.journal import Durability, Journal, Place, require_durability
from ..domain.memory import Memory, MemoryScope
from ..domain.pool import ContextPool, ContextQueue
from ..domain.pool.settings import require_tags
from ..domain.ports import LiveLog
from ..domain.positions import BEGINNING, Moment
from ..domain.streams import stream_id
from ..domain.system import REAL_SYSTEM
from ..domain.threads import in_thread
from ..domain.tracing import NO_TRACE, Trace
from ..domain.transaction import Transaction, transaction
from ..domain.window import AdmissionPolicy, AgentContext, ContextWindow
from ..projections.catalogue import CATALOGUE, CatalogueRow
from ..projections.rollup import ROLLUP, RollupRow
from ..projections.search import SEARCH, SearchHit
from .containers import ContainerSettings
from .opening import Opening, open_journal
from .projecting.runner import ProjectionRunner
from .projecting.store import ProjectionStore
from .searching import search
from .subscription import Subscription
from .windows import WindowSettings, window_opening

__all__ = ["Store"]

Adopted = TypeVar("Adopted", ChatContext, ContextQueue[Any], ContextPool[Any], ContextWindow, MemoryScope)


class Store:
    """
    Contexts that are kept, in an SQLite file, in PostgreSQL or in memory: the calls are the same.

    Its methods may be called from any thread. Those that touch the disk have a twin with an `a` in front for
    use in a running event loop.
    """

    def __init__(self, log: LiveLog, projections: ProjectionStore, *, durability: Durability = "commit") -> None:
        self.log = log
        self._durability = durability
        self._runner = ProjectionRunner(log, projections, [CATALOGUE, ROLLUP, SEARCH])
        self._unflushed: set[Journal[Any]] = set()

    def chat(
        self,
        context_id: str,
        *,
        user: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        source: str | None = None,
        attributes: dict[str, Any] | None = None,
        create: bool = True,
        durability: Durability | None = None,
    ) -> ChatContext:
        """
        Open a chat context, or create it.

        `session` decides with whom a new context shares a slice; `agent` is the default actor of its events.

        Raises:
            InvalidInputError: the id cannot be one, or the context has another user, session or agent.
            NotFoundError: it does not exist and `create` is False.
        """
        opened = Opened(
            user=user,
            session=session,
            agent=agent,
            source=source,
            attributes=canonical_json(attributes, what=f"attributes of {context_id!r}") if attributes else b"",
        )
        return ChatContext(journal=self._journal(context_id, Opening("chat", CHAT, opened, Open), create, durability))

    async def achat(self, context_id: str, **options: Any) -> ChatContext:
        """
        `chat()` for a running event loop.
        """
        return await in_thread(self.chat, context_id, **options)

    def queue(
        self,
        context_id: str,
        *,
        limit: int | None = None,
        tags: Iterable[str] | None = None,
        user: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        create: bool = True,
        durability: Durability | None = None,
    ) -> ContextQueue[Any]:
        """
        Open a context queue, or create it; a new one holds 10 items unless `limit` says otherwise.

        Raises:
            InvalidInputError: the id cannot be one, the limit is less than 1, or the queue was opened with another
                user, session or agent, or has another limit or other tags (`change_settings` changes them).
            NotFoundError: it does not exist and `create` is False.
        """
        settings = ContainerSettings(limit, None if tags is None else require_tags(tags))
        opening = settings.opening(ContextQueue, user=user, session=session, agent=agent)
        return settings.container_on(self._journal(context_id, opening, create, durability), ContextQueue)

    async def aqueue(self, context_id: str, **options: Any) -> ContextQueue[Any]:
        """
        `queue()` for a running event loop.
        """
        return await in_thread(self.queue, context_id, **options)

    def pool(
        self,
        context_id: str,
        *,
        limit: int | None = None,
        tags: Iterable[str] | None = None,
        user: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        create: bool = True,
        durability: Durability | None = None,
    ) -> ContextPool[Any]:
        """
        Open a context pool, or create it; a new one has no limit unless one is given.

        Raises:
            InvalidInputError, NotFoundError: as for `queue`.
        """
        settings = ContainerSettings(limit, None if tags is None else require_tags(tags))
        opening = settings.opening(ContextPool, user=user, session=session, agent=agent)
        return settings.container_on(self._journal(context_id, opening, create, durability), ContextPool)

    async def apool(self, context_id: str, **options: Any) -> ContextPool[Any]:
        """
        `pool()` for a running event loop.
        """
        return await in_thread(self.pool, context_id, **options)

    def window(
        self,
        context_id: str,
        *,
        max_tokens: int | None = None,
        policy: AdmissionPolicy | None = None,
        counter: TokenCounter | None = None,
        user: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        create: bool = True,
        durability: Durability | None = None,
    ) -> ContextWindow:
        """
        Open a context window, or create it; a new one holds 100,000 tokens, first come, unless something else is said.

        `counter` counts what this handle adds; what was added keeps the size that it was counted with.

        Raises:
            InvalidInputError: the id cannot be one, or the window was opened with another user, session or agent, or
                has another budget or policy (to set `window.max_tokens` changes it).
            NotFoundError: it does not exist and `create` is False.
        """
        settings = WindowSettings(max_tokens, policy, counter)
        opening = window_opening(settings, user=user, session=session, agent=agent)
        return settings.window_on(self._journal(context_id, opening, create, durability))

    async def awindow(self, context_id: str, **options: Any) -> ContextWindow:
        """
        `window()` for a running event loop.
        """
        return await in_thread(self.window, context_id, **options)

    def memory(self, *, durability: Durability | None = None) -> Memory:
        """
        Return the memory of this store: what is remembered, scope by scope (SPEC A4).
        """
        return self._memory(durability, NO_TRACE)

    def _memory(self, durability: Durability | None, trace: Trace) -> Memory:
        home = Home(
            self.log,
            system=REAL_SYSTEM,
            durability=require_durability(durability or self._durability),
            unflushed=self._unflushed,
            is_detached=False,
        )
        return Memory(home, trace=trace)

    def agent_context(
        self,
        trace_id: str,
        endpoint_name: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        policy: AdmissionPolicy | None = None,
        counter: TokenCounter | None = None,
        durability: Durability | None = None,
    ) -> AgentContext:
        """
        Return the context of a request to an agent, with the window of its session and this store's memory (SPEC A3.7).

        A request without a session has a window of its own. What is recorded through it bears the trace, and the
        endpoint as the actor where nobody else is said to act.

        Raises:
            InvalidInputError: the session's or trace's id cannot be that of a window, or the window has another budget
                or policy.
        """
        settings = WindowSettings(max_tokens, policy, counter)
        # A session may begin before its user is known, so that only what it began with is recorded.
        opening = window_opening(settings, user=user_id, session=session_id, agent=None, settled=())
        name = session_id if session_id is not None else trace_id
        trace = Trace(endpoint_name, trace_id)
        with trace.recording():
            journal = self._journal(encoded_id(name, f"the session {name!r}"), opening, True, durability)
        return AgentContext(
            trace_id,
            endpoint_name,
            session_id=session_id,
            user_id=user_id,
            metadata={} if metadata is None else metadata,
            context_window=settings.window_on(journal, trace),
            memory=self._memory(durability, trace),
        )

    async def aagent_context(self, trace_id: str, endpoint_name: str, **options: Any) -> AgentContext:
        """
        `agent_context()` for a running event loop.
        """
        return await in_thread(self.agent_context, trace_id, endpoint_name, **options)

    def _journal(self, context_id: str, wanted: Opening, create: bool, durability: Durability | None) -> Journal[Any]:
        return open_journal(
            self.log,
            context_id,
            wanted,
            create=create,
            durability=durability or self._durability,
            unflushed=self._unflushed,
        )

    def adopt(self, context: Adopted, context_id: str) -> Adopted:
        """
        Write a detached context, with its whole past, into this store; from then on it is kept here.

        What it was forked from, and what was merged into it, comes along under ids made from `context_id`.

        Raises:
            InvalidInputError: it is kept in a store already, or the id cannot be one.
            ConcurrencyError: there is a context with this id.
        """
        kind = context.stream_kind
        if not context.is_detached:
            raise InvalidInputError(f"{kind} context {context.id!r} is kept in a store already: fork or branch it")
        place = Place(stream_id(kind, context_id), context_id)
        context.flush()
        self.log.append(context.adopted_events(place.stream, root=place.root)).result()
        context.attach(self.log, place, self._durability, self._unflushed)
        return context

    async def aadopt(self, context: Adopted, context_id: str) -> Adopted:
        """
        `adopt()` for a running event loop.
        """
        return await in_thread(self.adopt, context, context_id)

    def transaction(self, *, idempotency_key: str | None = None) -> AbstractContextManager[Transaction]:
        """
        Commit all changes to contexts of this store made within the block as one, or none of them.

        A rolled-back transaction restores every view.
        """
        return transaction(self.log, idempotency_key=idempotency_key)

    def contexts(self) -> list[CatalogueRow]:
        """
        Return what is known of every context, ordered by kind and id.
        """
        return self._runner.rows(CATALOGUE)

    async def acontexts(self) -> list[CatalogueRow]:
        """
        `contexts()` for a running event loop.
        """
        return await in_thread(self.contexts)

    def rollup(self) -> list[RollupRow]:
        """
        Return the summary of the log, one row for every 1,024 positions of a slice.
        """
        return self._runner.rows(ROLLUP)

    def search(
        self, query: str, *, kind: str | None = None, context: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        """
        Return the items in which all words of `query` stand, the best first; what left the view is found as well.

        `"in quotes"` finds words side by side, `begin*` the beginning of a word; no other sign has a meaning. Case and
        accents make no difference. `context` is searched with the past that it keeps from what it was forked from.

        Raises:
            InvalidInputError: the query has no word, or there is no such kind.
            LimitExceededError: it has too many words.
            NotFoundError: there is no such context.
        """
        return search(self.log, self._runner, query, kind=kind, context=context, limit=limit)

    async def asearch(self, query: str, **options: Any) -> list[SearchHit]:
        """
        `search()` for a running event loop.
        """
        return await in_thread(self.search, query, **options)

    def now(self) -> Moment:
        """
        Return the moment of the last event: where a subscription to everything new would start.
        """
        return self.log.now()

    def subscribe(self, *, after: Moment = BEGINNING) -> Subscription:
        """
        Return an endless iterator over the events behind `after`, from the past into the present.
        """
        return Subscription(self.log, after=after)

    def flush(self) -> None:
        """
        Wait until everything queued by contexts of this store is on disk.

        Raises:
            ConcurrencyError, StorageError: with `refused`, the events that did not get in.
        """
        failures: list[ConcurrencyError | StorageError] = []
        for journal in list(self._unflushed):
            try:
                journal.flush()
            except (ConcurrencyError, StorageError) as error:
                failures.append(error)
        if failures:
            # One error goes out; it tells of everything that did not get in, whichever context it was for.
            failures[0].refused = tuple(event for failure in failures for event in failure.refused)
            raise failures[0]

    async def aflush(self) -> None:
        """
        `flush()` for a running event loop.
        """
        await in_thread(self.flush)

    def close(self) -> None:
        """
        Finish what was queued, then let go of the database; may be called twice.
        """
        try:
            self.flush()
        finally:
            self.log.close()

    async def aclose(self) -> None:
        """
        `close()` for a running event loop.
        """
        await in_thread(self.close)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
