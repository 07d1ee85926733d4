"""The part of a store that opens contexts: one method for each kind, and its twin for a running event loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from ..domain.canonical import canonical_json
from ..domain.chat.context import ChatContext
from ..domain.chat.events import Opened
from ..domain.chat.rules.commands import Open
from ..domain.chat.rules.decide import CHAT
from ..domain.chat.tokens import TokenCounter
from ..domain.clock import REAL_SYSTEM
from ..domain.concurrency.threads import in_thread
from ..domain.context.attachment import Home
from ..domain.context.journal import Journal
from ..domain.context.view import Durability, require_durability
from ..domain.errors import InvalidInputError
from ..domain.ids import encoded_id
from ..domain.log.acting import NO_TRACE, Trace
from ..domain.log.ports import LiveLog
from ..domain.memory import Memory
from ..domain.pool import ContextPool, ContextQueue
from ..domain.pool.commands import QUEUE, Begin
from ..domain.pool.container import Container, require_limit, require_tags
from ..domain.trajectory import Run, RunFactory
from ..domain.window import AdmissionPolicy, AgentContext, ContextWindow
from ..domain.window.events import WindowOpened
from ..domain.window.rules import WINDOWS
from ..domain.window.rules import Begin as BeginWindow
from ..domain.window.sizing import require_max_tokens, require_policy
from ..domain.window.window import MAX_TOKENS
from .opening import IDENTITY, Opening, home_of, open_journal

QUEUE_LIMIT = 10
C = TypeVar("C", bound=Container[Any])


class ContainerSettings(NamedTuple):
    """What a caller asks of a queue or a pool; None leaves it as it is, or as it is by default."""

    limit: int | None = None
    tags: tuple[str, ...] | None = None

    def opening(
        self, cls: type[Container[Any]], *, user: str | None, session: str | None, agent: str | None
    ) -> Opening:
        """
        Return what is to be opened as a queue or a pool.

        Raises:
            InvalidInputError: a limit that cannot be.
        """
        kind = cls.kind
        limit = QUEUE_LIMIT if self.limit is None and kind is QUEUE else self.limit
        opened = kind.opened(
            limit=require_limit(limit, kind), tags=self.tags or (), user=user, session=session, agent=agent
        )
        return Opening(kind.name, cls.decider, opened, Begin)

    def container_on(self, journal: Journal[Any], cls: type[C]) -> C:
        """
        Return the queue or pool of a journal.

        Raises:
            InvalidInputError: it has another limit, or other tags.
        """
        container = cls.standing_on(journal, home_of(journal))
        has = container.shown_state
        if self.limit not in (None, has.limit) or self.tags not in (None, has.tags):
            raise InvalidInputError(
                f"{container.stream} has the limit {has.limit} and the tags {list(has.tags)}: leave them out, or "
                "change them with change_settings()"
            )
        return container


class WindowSettings(NamedTuple):
    """What a caller asks of a window; None leaves it as it is, or as it is by default."""

    max_tokens: int | None = None
    policy: AdmissionPolicy | None = None
    counter: TokenCounter | None = None

    def window_on(self, journal: Journal[Any], trace: Trace = NO_TRACE) -> ContextWindow:
        """
        Return the window of a journal.

        Raises:
            InvalidInputError: it has another budget or policy.
        """
        window = ContextWindow.standing_on(journal, home_of(journal), counter=self.counter, trace=trace)
        if self.max_tokens not in (None, window.max_tokens) or self.policy not in (None, window.policy):
            raise InvalidInputError(
                f"{window.stream} has max_tokens {window.max_tokens} and the policy {window.policy!r}: leave them out, "
                "or set them on the window, which is an event"
            )
        return window


def window_opening(
    settings: WindowSettings,
    *,
    user: str | None,
    session: str | None,
    agent: str | None,
    settled: tuple[str, ...] = IDENTITY,
) -> Opening:
    """
    Return what is to be opened as a window.

    Raises:
        InvalidInputError: a budget or a policy that cannot be.
    """
    opened = WindowOpened(
        max_tokens=require_max_tokens(MAX_TOKENS if settings.max_tokens is None else settings.max_tokens),
        policy=require_policy(settings.policy or "first_come"),
        user=user,
        session=session,
        agent=agent,
    )
    return Opening("window", WINDOWS, opened, BeginWindow, settled)


class ContextsOfStore:
    """Opens the contexts of a store, which has a log and says how changes get to the disk."""

    log: LiveLog
    _durability: Durability
    _unflushed: set[Journal[Any]]
    _runs: RunFactory

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
        """`chat()` for a running event loop."""
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
        """`queue()` for a running event loop."""
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
        """`pool()` for a running event loop."""
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
        """`window()` for a running event loop."""
        return await in_thread(self.window, context_id, **options)

    def memory(self, *, durability: Durability | None = None) -> Memory:
        """Return the memory of this store: what is remembered, scope by scope (SPEC A4)."""
        return self._memory(durability, NO_TRACE)

    def _memory(self, durability: Durability | None, trace: Trace) -> Memory:
        return Memory(self._home(durability), trace=trace)

    def _home(self, durability: Durability | None) -> Home:
        return Home(
            self.log,
            system=REAL_SYSTEM,
            durability=require_durability(durability or self._durability),
            unflushed=self._unflushed,
            is_detached=False,
        )

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
        """`agent_context()` for a running event loop."""
        return await in_thread(self.agent_context, trace_id, endpoint_name, **options)

    def run(
        self,
        user_id: str,
        session_id: str,
        run_id: int = 0,
        sub_id: int | None = 0,
        *,
        agent: str | None = None,
        restore: bool = True,
        create: bool = True,
    ) -> Run:
        """
        Open a run, or create it: round `run_id` of a session, by its main agent or a sub-agent (SPEC D1).

        With `sub_id=None` it is a new one, of the next sub-agent. Within a process the same run is the same object,
        as long as somebody holds it. A new round of the main agent goes back over the earlier ones unless `restore`
        is False.

        Raises:
            InvalidInputError: a part that cannot be one, another agent's run, or a sub-agent of a run that is not.
            NotFoundError: it does not exist, as a new one does not, and `create` is False.
        """
        return self._runs.run(user_id, session_id, run_id, sub_id, agent=agent, restore=restore, create=create)

    async def arun(self, user_id: str, session_id: str, run_id: int = 0, sub_id: int | None = 0, **options: Any) -> Run:
        """`run()` for a running event loop."""
        return await in_thread(self.run, user_id, session_id, run_id, sub_id, **options)

    def release_runs(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: int | None = None,
        sub_id: int | None = None,
    ) -> int:
        """
        Let go of all run objects, or of those of a user, session, round or agent; return how many (SPEC D1.8).

        Nothing recorded is touched: who asks again gets a new object.
        """
        return self._runs.release(user_id, session_id, run_id, sub_id)

    def _journal(self, context_id: str, wanted: Opening, create: bool, durability: Durability | None) -> Journal[Any]:
        return open_journal(
            self.log,
            context_id,
            wanted,
            create=create,
            durability=durability or self._durability,
            unflushed=self._unflushed,
        )
