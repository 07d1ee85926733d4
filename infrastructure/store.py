"""The store: what `refold.open()` gives, and the one place where contexts, log and projections come together."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from datetime import date, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ..domain.canonical import canonical_json
from ..domain.clock import REAL_SYSTEM
from ..domain.concurrency.threads import awaited
from ..domain.context.context import Home
from ..domain.context.decider import trusted
from ..domain.context.journal import Journal
from ..domain.context.transaction import Transaction, transaction
from ..domain.context.view import Durability, Place, require_durability
from ..domain.errors import InvalidInputError
from ..domain.ids import encoded_id, split_stream_id, stream_id
from ..domain.kinds import ITEM_KINDS
from ..domain.log.envelope import NO_TRACE, Trace
from ..domain.log.ports import LiveLog
from ..domain.moments import MomentNames
from ..domain.positions import BEGINNING, Moment, Position
from ..projections.catalogue import CATALOGUE, CatalogueRow
from ..projections.contract import Projection
from ..projections.lineage import LINEAGE, LineageRow
from ..projections.rollup import ROLLUP, RollupRow
from ..projections.search import SearchHit
from ..projections.trajectory_tables import EdgeRow, NodeRow
from ..projections.usage import USAGE, UsageRow
from ..projections.validity import VALIDITY
from .exits import flush_all, flush_at_exit, warn_of_unclosed
from .opening import Opening, context_named, missing_streams, open_journal
from .projecting.builtin import PROJECTIONS
from .projecting.folding import note_fault
from .projecting.runner import ProjectionRunner
from .projecting.shadow import Progress, Stop
from .projecting.status import ProjectionStatus, status_of
from .projecting.store import ProjectionStore
from .queries.at import LogEnd
from .subscription import Cursor, Subscription, wanted
from .times import day_named

if TYPE_CHECKING:
    from eventsourcing.persistence import ApplicationRecorder

    from ..domain.chat.context import ChatContext
    from ..domain.chat.tokens import TokenCounter
    from ..domain.memory.memory import Memory, MemoryScope
    from ..domain.pool.pool import ContextPool
    from ..domain.pool.queue import ContextQueue
    from ..domain.trajectory.factory import RunFactory
    from ..domain.trajectory.run import Run
    from ..domain.trajectory.trajectory import Trajectory
    from ..domain.window.window import AdmissionPolicy, AgentContext, ContextWindow
    from .projecting.rebuild import RebuildReport
    from .projecting.worker import ProjectionWorker, WorkingThread
    from .queries.at import ContextDifference, StoreAt
    from .queries.audit import (
        AuditEntry,
        Transition,
    )
    from .queries.entries import EntryStay
    from .queries.intervals import Interval
    from .queries.node_audit import AttributeTransition
    from .queries.pages import ContextPage
    from .queries.what_if import WhatIf
    from .queries.why_gone import WhyGone
    from .verifying import Report

# Contexts and questions are imported by the calls that need them: a program that has chats alone never loads pools,
# windows, memory and runs, which is half of the time that opening a store would take.
Adopted = TypeVar(
    "Adopted", "ChatContext", "ContextQueue[Any]", "ContextPool[Any]", "ContextWindow", "MemoryScope", "Run"
)


class Store:
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
        self._moments = MomentNames(self._home("commit"))
        self._end = LogEnd(log)
        flush_at_exit(self._unflushed)
        self._warning = None if opened_at is None else warn_of_unclosed(self, opened_at)

    # Contexts

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
        from ..domain.chat.context import ChatContext
        from ..domain.chat.events import Opened
        from ..domain.chat.rules.commands import Open
        from ..domain.chat.rules.decide import CHAT

        opened = Opened(
            user=user,
            session=session,
            agent=agent,
            source=source,
            attributes=canonical_json(attributes, what=f"attributes of {context_id!r}") if attributes else b"",
        )
        return ChatContext(journal=self._journal(context_id, Opening("chat", CHAT, opened, Open), create, durability))

    achat = awaited(chat)

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
        from ..domain.pool.container import require_tags
        from ..domain.pool.queue import ContextQueue
        from .context_settings import ContainerSettings

        settings = ContainerSettings(limit, None if tags is None else require_tags(tags))
        opening = settings.opening(ContextQueue, user=user, session=session, agent=agent)
        return settings.container_on(self._journal(context_id, opening, create, durability), ContextQueue)

    aqueue = awaited(queue)

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
        from ..domain.pool.container import require_tags
        from ..domain.pool.pool import ContextPool
        from .context_settings import ContainerSettings

        settings = ContainerSettings(limit, None if tags is None else require_tags(tags))
        opening = settings.opening(ContextPool, user=user, session=session, agent=agent)
        return settings.container_on(self._journal(context_id, opening, create, durability), ContextPool)

    apool = awaited(pool)

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
        from .context_settings import WindowSettings, window_opening

        settings = WindowSettings(max_tokens, policy, counter)
        opening = window_opening(settings, user=user, session=session, agent=agent)
        return settings.window_on(self._journal(context_id, opening, create, durability))

    awindow = awaited(window)

    def memory(self, *, durability: Durability | None = None) -> Memory:
        """Return the memory of this store: what is remembered, scope by scope."""
        return self._memory(durability, NO_TRACE)

    def _memory(self, durability: Durability | None, trace: Trace) -> Memory:
        from ..domain.memory.memory import Memory

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
        Return the context of a request to an agent, with the window of its session and this store's memory.

        A request without a session has a window of its own. Its events bear the trace, and the endpoint as the actor
        unless another one is given.

        Raises:
            InvalidInputError: the session's or trace's id cannot be that of a window, or the window has another budget
                or policy.
        """
        from ..domain.window.window import AgentContext
        from .context_settings import WindowSettings, window_opening

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

    aagent_context = awaited(agent_context)

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
        Open a run, or create it: round `run_id` of a session, by its main agent or a sub-agent.

        With `sub_id=None` it is a new one, of the next sub-agent. Within a process the same run is the same object,
        as long as somebody holds it. A new round of the main agent goes back over the earlier ones unless `restore`
        is False.

        Raises:
            InvalidInputError: a part that cannot be one, another agent's run, or a sub-agent of a run that is not.
            NotFoundError: it does not exist, as a new one does not, and `create` is False.
        """
        return self._runs.run(user_id, session_id, run_id, sub_id, agent=agent, restore=restore, create=create)

    arun = awaited(run)

    @property
    def _runs(self) -> RunFactory:
        """The factory of runs, made with the first one: all callers get the same object for a run."""
        from ..domain.trajectory.factory import RunFactory

        made: RunFactory | None = self.__dict__.get("_run_factory")
        if made is None:
            # One step, so that two threads get the same factory.
            made = self.__dict__.setdefault("_run_factory", RunFactory(self._home(self._durability)))
        return made

    def release_runs(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: int | None = None,
        sub_id: int | None = None,
    ) -> int:
        """
        Let go of all run objects, or of those of a user, session, round or agent; return how many.

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

    # The log

    def adopt(self, context: Adopted, context_id: str) -> Adopted:
        """
        Write a detached context, with its whole past, into this store; from then on it is kept here.

        The contexts that it was forked from, and those merged into it, come along under ids made from `context_id`.

        Raises:
            InvalidInputError: it is kept in a store already, the id cannot be one, or a run goes back over rounds that
                are others here.
            ConcurrencyError: there is a context with this id.
        """
        from ..domain.trajectory.run import Run

        kind = context.stream_kind
        if not context.is_detached:
            raise InvalidInputError(f"{kind} context {context.id!r} is kept in a store already: fork or branch it")
        place = Place(stream_id(kind, context_id), context_id)
        context.flush()
        self.log.append(
            missing_streams(self.log, context.adopted_events(place.stream, root=place.root), place.stream)
        ).result()
        context.attach(self.log, place, self._durability, self._unflushed)
        if isinstance(context, Run):
            self._runs.keep(context)
        return context

    aadopt = awaited(adopt)

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

    def recorder(self, context: str | None = None, *, slice_number: int | None = None) -> ApplicationRecorder:
        """
        Return the events of this store as a recorder of the `eventsourcing` package, for its projections and followers.

        On SQLite and in memory it has the whole log. On PostgreSQL it has one slice, named by its number or by a
        context that lies in it, whose whole session does. What `durability="enqueue"` has queued is not there yet.

        Raises:
            NotFoundError: there is no such context.
            InvalidInputError: the store is on PostgreSQL and no slice is named, or a slice is named and there are none.
        """
        # The package takes longer to import than this one, and few programs ask for it.
        from .recorders.store import StoreRecorder

        if context is not None and self.log.has_slices:
            slice_number = self.log.read(context_named(self.log, context), until=1)[0].position.slice
        return StoreRecorder(self.log, slice_number)

    def flush(self) -> None:
        """
        Wait until everything queued by contexts of this store is on disk.

        Raises:
            ConcurrencyError, IdempotencyError, StorageError: with `refused`, the events that did not get in.
        """
        flush_all(self._unflushed)

    # The past

    def at(self, moment: str | datetime | Moment | Position) -> StoreAt:
        """
        Return the whole store as it was: at a position of its log (`"pos:17"`, a Moment, an event's position), at a
        time, or at a named moment. All contexts are shown as of that one moment, to be read only.

        Raises:
            InvalidInputError: it is none of these; a version belongs to one context.
            NotFoundError: no moment has this name.
        """
        from .queries.at import StoreAt, cut_at

        self.flush()
        return StoreAt(self, cut_at(moment, self._moments, self._end))

    def diff(
        self, before: str | datetime | Moment | Position, after: str | datetime | Moment | Position | None = None
    ) -> list[ContextDifference]:
        """
        Return which contexts are different at two moments, or at one and now, with what is known of each at both.

        Raises:
            InvalidInputError, NotFoundError: as for `at`.
        """
        from .queries.at import store_difference

        return store_difference(self.at(before), self.at(self.log.now() if after is None else after))

    def what_if(self, moment: str | datetime | Moment | Position) -> WhatIf:
        """
        Return a way to branch several contexts as they were at one moment, in memory, and to keep the branches or not.

        Raises:
            InvalidInputError, NotFoundError: as for `at`.
        """
        from .queries.at import cut_at
        from .queries.what_if import WhatIf

        self.flush()
        return WhatIf(self.log, cut_at(moment, self._moments, self._end))

    def name_moment(self, name: str, moment: str | datetime | Moment | Position | None = None) -> Moment:
        """
        Give a moment of the log, the present one by default, a name, and return it. A name that is given again moves.

        Raises:
            InvalidInputError: the name cannot be one, or the moment is a time: name a position.
            NotFoundError: no moment has the name that was given as the moment.
        """
        from .queries.at import cut_at

        self.flush()
        cut = self._end.now() if moment is None else cut_at(moment, self._moments, self._end)
        if not isinstance(cut, Moment):
            raise InvalidInputError(f"{moment!r} is a time, and times need no name: give a position")
        self._moments.name(name, cut)
        return cut

    def moments(self) -> dict[str, Moment]:
        """Return the moments that have a name."""
        return self._moments.moments()

    # Answers of projections

    def contexts(self) -> list[CatalogueRow]:
        """Return what is known of every context, ordered by kind and id."""
        return self._runner.rows(CATALOGUE)

    acontexts = awaited(contexts)

    def find_contexts(
        self,
        *,
        kind: str | None = None,
        user: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ContextPage:
        """
        Return a page of the contexts that are wanted, ordered by kind and id, and the cursor for the next page.

        `since` and `until` (not included) are times of the last change.

        Raises:
            InvalidInputError: there is no such kind, a time without a zone, or a limit that is none.
        """
        from .queries.pages import Wish, context_page

        wish = Wish(kind=kind, user=user, session=session, agent=agent, since=since, until=until)
        return context_page(self._runner, wish, limit=limit, cursor=cursor)

    afind_contexts = awaited(find_contexts)

    def validity(self, context_id: str) -> list[Interval]:
        """
        Return when each item of a chat could be seen: its stays in the view, from version `v0` on and before `v1`.

        The items come in the order in which they stand, with those that left and those that a fork began with; so what
        is seen at a version is the stays that hold it (`refold.infrastructure.queries.intervals.ids_seen`).

        Raises:
            NotFoundError: there is no such chat.
        """
        from .queries.intervals import intervals

        stream = context_named(self.log, context_id, ("chat",))
        self._runner.catch_up(VALIDITY)
        return intervals(self._projections, stream)

    avalidity = awaited(validity)

    def entries(
        self, context: str, at: int | str | datetime | Moment | None = None, *, with_gone: bool = False
    ) -> list[EntryStay]:
        """
        Return what a queue or a pool holds, or held at a version, a time, a position (`"pos:17"`) or a name, in order.

        With `with_gone` what had left by then is there too, each stay of it: those that are held are the ones whose
        `v1` is 0 or later than the version. Contents are not read.

        Raises:
            NotFoundError: there is no such queue or pool, or no such version or name.
            InvalidInputError: both could be meant, or `at` is none of these.
        """
        from ..projections.entries import ENTRIES
        from .queries.entries import entry_stays, version_meant
        from .queries.intervals import holds

        stream = context_named(self.log, context, ("queue", "pool"))
        head = self.log.head(stream)
        self._runner.catch_up(ENTRIES)
        version = version_meant(self.log, self._projections, stream, at, head=head)
        stays = (stay for stay in entry_stays(self._projections, stream) if stay.v0 <= version)
        return [stay for stay in stays if with_gone or holds(stay, version)]

    aentries = awaited(entries)

    def lineage(self, context: str | None = None) -> list[LineageRow]:
        """
        Return the forks and merges of all contexts, or those from and into one, as edges, oldest first.

        Raises:
            NotFoundError: there is no such context.
            InvalidInputError: several could be meant: write its kind in front.
        """
        stream = None if context is None else context_named(self.log, context)
        rows: list[LineageRow] = self._runner.rows(LINEAGE)
        chosen = (row for row in rows if stream in (None, row.source, row.target))
        return sorted(chosen, key=lambda row: (row.recorded_at, row.key))

    alineage = awaited(lineage)

    def usage(self, *, since: date | str | None = None, until: date | str | None = None) -> list[UsageRow]:
        """
        Return how many tokens agents used, by day (UTC), agent and model; only from one day to another, both included.

        Raises:
            InvalidInputError: what is given is no day.
        """
        first = "" if since is None else day_named(since)
        last = None if until is None else day_named(until)
        rows: list[UsageRow] = self._runner.rows(USAGE)
        chosen = (row for row in rows if first <= row.day and (last is None or row.day <= last))
        return sorted(chosen, key=lambda row: (row.day, row.agent, row.model))

    ausage = awaited(usage)

    def rollup(self) -> list[RollupRow]:
        """Return the summary of the log, one row for every 1,024 positions of a slice."""
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
        from .queries.search import search

        return search(self.log, self._runner, query, kind=kind, context=context, limit=limit)

    asearch = awaited(search)

    # Audits

    def audit(
        self,
        subject: str,
        attribute: str | None = None,
        *,
        item: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: int | None = None,
        sub_id: int | None = None,
    ) -> list[Transition]:
        """
        Return every change of a context, or of a node (`Type(label)`), oldest first; of one attribute, or of one item.

        A context is named with its kind or without, an item by its id or key, or by its birth, `stream@version`. A
        chat's `instructions` and `tools` are attributes of it, as are the settings of other contexts; a fork has the
        changes since it was forked. User, session, round and agent say which node is meant, as for `audit_node`.

        Raises:
            NotFoundError: there is no such context or node, or it never had that item, or no change of that attribute.
            InvalidInputError: several could be meant; an item of a node, or a session of a context, was asked for.
        """
        from .queries.audit import of_attribute, of_item, transitions_of
        from .queries.node_audit import is_node_name, node_changes

        where = {"user_id": user_id, "session_id": session_id, "run_id": run_id, "sub_id": sub_id}
        if is_node_name(subject):
            if item is not None:
                raise InvalidInputError(f"{subject} is a node, and items are in contexts: leave out item={item!r}")
            told = self.audit_node(subject, attribute, **where)  # type: ignore[arg-type]  # each has its own type
            return transitions_of(self.log, node_changes(self.log, subject, told))
        if any(value is not None for value in where.values()):
            raise InvalidInputError(f"{subject} is a context: user, session, round and agent say which node is meant")
        stream = context_named(self.log, subject)
        changes = self._changes(stream)
        if item is not None:
            changes = of_item(changes, item, stream)
        if attribute is not None:
            changes = of_attribute(changes, attribute, stream)
        with trusted(stream):
            return transitions_of(self.log, changes)

    aaudit = awaited(audit)

    def why_gone(self, context: str, item: str) -> WhyGone:
        """
        Return why an item is not in a context: the event that took it out, here or in what the context was forked from.

        The context is named with its kind or without, the item by its id or key, or by its birth, `stream@version`. The
        answer may also be that the item is there, or never was.

        Raises:
            NotFoundError: there is no such context.
            InvalidInputError: several could be meant, or it holds no items, as a run.
        """
        from .queries.why_gone import why_gone

        stream = context_named(self.log, context)
        if split_stream_id(stream)[0] not in ITEM_KINDS:
            raise InvalidInputError(f"{stream} holds no items: `audit` tells what became of its nodes")
        self._runner.catch_up(VALIDITY)
        return why_gone(self.log, self._projections, stream, item)

    awhy_gone = awaited(why_gone)

    def _changes(self, stream: str) -> list[AuditEntry]:
        from ..domain.trajectory.identity import run_id_of
        from .queries.audit import config_changes, context_changes, run_changes
        from .queries.intervals import intervals

        kind, context_id = split_stream_id(stream)
        head = self.log.head(stream)
        if kind == "run":
            return list(run_changes(self.log, self.run(*run_id_of(context_id), create=False), head))
        changes = list(context_changes(self.log, stream, head))
        if kind != "chat":
            return changes
        self._runner.catch_up(VALIDITY)
        changes += config_changes(self.log, stream, intervals(self._projections, stream))
        return sorted(changes, key=lambda change: change.recorded.version)

    # Tables of runs

    def run_nodes(
        self,
        user_id: str,
        session_id: str,
        run_id: int | None = None,
        sub_id: int | None = None,
        *,
        node_type: str | None = None,
    ) -> list[NodeRow]:
        """
        Return the nodes of a session, of one round or one agent of it, or those of a type.

        They come as they are now, round after round in the order of registration. Removed ones are not among them.

        Raises:
            InvalidInputError: a part that cannot be one, or no such type.
        """
        from .queries.runs import Selected, run_nodes

        return run_nodes(self._runner, Selected(user_id, session_id, run_id, sub_id), node_type)

    arun_nodes = awaited(run_nodes)

    def run_edges(
        self, user_id: str, session_id: str, run_id: int | None = None, sub_id: int | None = None
    ) -> list[EdgeRow]:
        """
        Return the edges between nodes of one round each; those between rounds follow from the rounds.

        Raises:
            InvalidInputError: a part that cannot be one.
        """
        from .queries.runs import Selected, run_edges

        return run_edges(self._runner, Selected(user_id, session_id, run_id, sub_id))

    arun_edges = awaited(run_edges)

    def run_graph(self, user_id: str, session_id: str, run_id: int | None = None, sub_id: int = 0) -> Trajectory:
        """
        Restore the graph of one agent from the tables: all its rounds with the bridges between them, or one round.

        Edges that lead from a round to another and are no bridges are not in the tables; `run.graph()`
        has them.

        Raises:
            InvalidInputError: a part that cannot be one.
            NotFoundError: there is no node.
        """
        from .queries.runs import Selected, run_graph

        return run_graph(self._runner, Selected(user_id, session_id, run_id, sub_id))

    arun_graph = awaited(run_graph)

    def audit_node(
        self,
        node: str,
        attribute: str | None = None,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: int | None = None,
        sub_id: int | None = None,
    ) -> list[AttributeTransition]:
        """
        Return every change of a node's attributes, or of one: old, new, who, when, and because of what.

        A data node is one in all rounds of its session, and to all its agents. User and session may be left out where
        only one session has such a node; round and agent say which run a query, action or state is of.

        Raises:
            InvalidInputError: the name is not of the form `Type(label)`, or there are several such nodes.
            NodeNotFoundError: there is none.
            NotFoundError: the node never had that attribute.
        """
        from .queries.node_audit import AskedNode, audit_node

        return audit_node(self._runner, AskedNode(node, user_id, session_id, run_id, sub_id), attribute)

    aaudit_node = awaited(audit_node)

    # Projections

    def add_projection(self, projection: Projection) -> None:
        """
        Let a projection of one's own be kept as the store's are; `rows` gives what it has.

        Raises:
            InvalidInputError: there is one of this name, or the name cannot be that of a table.
        """
        self._runner.add(projection)

    def rows(self, name: str, *, under: str = "") -> list[object]:
        """
        Return the rows of a projection, brought up to date first, those whose keys begin with `under`, by their keys.

        Raises:
            NotFoundError: there is no such projection.
            ProjectionError: it cannot fold an event.
        """
        projection = self._runner.named(name)
        return self._runner.rows_under([projection], [under]) if under else self._runner.rows(projection)

    def projections(self) -> list[ProjectionStatus]:
        """
        Return how each projection stands: how far behind, who works on it, what stopped it, and what was set aside.
        """
        return [status_of(self.log, self._projections, one) for one in self._runner.projections.values()]

    def events_missed(self) -> int:
        """
        Return how many events the answers that this store gave so far were made without.

        Projections set them aside, as they cannot fold them; `projections()` says which they are, and why.
        """
        asked = list(self._runner.asked.values())
        return len({aside.event for projection in asked for aside in self._projections.set_aside(projection)})

    def rebuild(
        self,
        name: str,
        *,
        restart: bool = False,
        progress: Progress | None = None,
        stop: Stop = lambda: False,
        executor: Executor | None = None,
        partitions: int | None = None,
    ) -> RebuildReport:
        """
        Make the rows of a projection anew beside those that are read, and put them in their place at the end.

        A rebuild that `stop` ended, or that was killed, goes on where it was, unless `restart`.

        With an `executor`, a `ProcessPoolExecutor` or that of a Dask client, its workers fold the log in so many
        `partitions`, as many as this machine has cores where that is left out. They open the store at its location, and
        must be able to import a projection of one's own. This process alone rebuilds a projection that is not
        `stays_in_slice` or is searched, and a store in memory.

        Raises:
            NotFoundError: there is no such projection.
            InvalidInputError: there are to be fewer than 1 partitions, or more than PARTITIONS_MAX.
            ProjectionError: it cannot fold an event; the rows that are read stay.
        """
        from .projecting.rebuild import Workers, rebuild

        projection = self._runner.named(name)
        workers = None if executor is None else Workers.of(executor, partitions)
        report = rebuild(
            self.log, self._projections, projection, restart=restart, progress=progress, stop=stop, workers=workers
        )
        if report.is_done:
            note_fault(self._projections, projection, None)
        return report

    def check(self, name: str, *, progress: Progress | None = None, stop: Stop = lambda: False) -> RebuildReport:
        """
        Make the rows of a projection anew, say how they differ from those that are read, and change nothing.

        Raises:
            NotFoundError: there is no such projection.
            ProjectionError: it cannot fold an event.
        """
        from .projecting.rebuild import check

        return check(self.log, self._projections, self._runner.named(name), progress=progress, stop=stop)

    def start_projections(self, names: Iterable[str] | None = None) -> WorkingThread:
        """
        Keep projections up to date in a thread, until its `stop()`; of several processes one works on each.

        Raises:
            NotFoundError: there is no such projection.
        """
        from .projecting.worker import WorkingThread

        return WorkingThread(self._worker(names))

    def run_projections(self, stop: threading.Event, names: Iterable[str] | None = None) -> None:
        """
        Keep projections up to date right here, until `stop` is set.

        Raises:
            NotFoundError: there is no such projection.
        """
        self._worker(names).run(stop)

    def verify(self, *, repair: bool = False, progress: Progress | None = None) -> Report:
        """
        Look at everything: versions, positions, digests, references, large texts, keys, and every projection.

        The report lists all problems. With `repair` projections that differ from their fold are rebuilt; no event is
        touched.
        """
        from .verifying import verify

        return verify(self.log, self._projections, self._runner.projections.values(), repair=repair, progress=progress)

    def _worker(self, names: Iterable[str] | None) -> ProjectionWorker:
        from .projecting.worker import ProjectionWorker

        chosen = list(self._runner.projections) if names is None else list(names)
        return ProjectionWorker(self.log, self._projections, [self._runner.named(name) for name in chosen])

    # The end

    aflush = awaited(flush)

    def close(self) -> None:
        """Finish what was queued, then let go of the database; may be called twice."""
        if self._warning is not None:
            self._warning.detach()
        try:
            self.flush()
        finally:
            self.log.close()

    aclose = awaited(close)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
