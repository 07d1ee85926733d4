"""The store: the result of `refold.open()`, and the one place that combines contexts, log and projections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast
from weakref import finalize

from ..domain.arguments import refuse_copy, require_callable, require_instance, require_tags, require_texts
from ..domain.canonical import canonical_json, require_unicode
from ..domain.clock import REAL_SYSTEM, System, day_named
from ..domain.concurrency.locks import cached_property
from ..domain.concurrency.threads import in_thread
from ..domain.context.context import Attachment, Context
from ..domain.context.decider import trusted
from ..domain.context.folded_stream import Durability, Place, require_durability
from ..domain.context.journal import Journal
from ..domain.context.transaction import Transaction, require_no_transaction, transaction
from ..domain.erasure.events import STREAM as ERASURES
from ..domain.erasure.events import archives_in
from ..domain.errors import InvalidInputError, RefoldError
from ..domain.frozen import read_before_closing
from ..domain.ids import encoded_id, require_name, split_stream_id, stream_id
from ..domain.kinds import ITEM_KINDS
from ..domain.log.envelope import NO_TRACE, Trace
from ..domain.log.gate import Gate
from ..domain.log.log_over import gated
from ..domain.log.ports import LiveLog
from ..domain.moments import MomentNames
from ..domain.positions import BEGINNING, Moment, Position
from ..domain.trajectory.identity import run_id_of
from .context_streams import Opening, context_named, missing_streams, open_journal
from .exits import flush_all, flush_at_exit, flush_behind, warn_of_unclosed
from .projecting.runner import ProjectionRunner
from .queries.cuts import LogEnd, cut_at
from .subscription import Cursor, Subscription, event_filter

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ..domain.chat.context import ChatContext
    from ..domain.chat.tokens import TokenCounter
    from ..domain.memory.memory import Memory, MemoryScope
    from ..domain.pool.pool import ContextPool
    from ..domain.pool.queue import ContextQueue
    from ..domain.trajectory.factory import RunFactory
    from ..domain.trajectory.run import Run
    from ..domain.trajectory.trajectory import Trajectory
    from ..domain.window.window import AdmissionPolicy, AgentContext, ContextWindow
    from ..projections.catalogue import CatalogueRow
    from ..projections.contract import Projection
    from ..projections.lineage import LineageRow
    from ..projections.rollup import RollupRow
    from ..projections.saved_states import SavedStateRow
    from ..projections.search import SearchHit
    from ..projections.trajectory_tables import EdgeRow, NodeRow
    from ..projections.usage import UsageSum
    from .exchange.archiving import Archived, Archivist
    from .exchange.backup import BackupReport
    from .projecting.rebuild import RebuildReport
    from .projecting.shadow import Progress, Stop
    from .projecting.status import ProjectionStatus
    from .projecting.store import ProjectionStore
    from .projecting.worker import ProjectionWorker, WorkingThread
    from .queries.approvals import PendingApproval
    from .queries.at import ContextDifference, StoreAt
    from .queries.audit import AuditEntry, Transition
    from .queries.entries import EntryStay
    from .queries.intervals import Interval
    from .queries.node_audit import AttributeTransition
    from .queries.pages import ContextPage
    from .queries.what_if import WhatIf
    from .queries.why_gone import WhyGone
    from .recorders.store import StoreRecorder
    from .trust.checkpoints import Checkpoints
    from .trust.erasing import Eraser, Erasure
    from .trust.proofs import WitnessState
    from .trust.receipts import Signer
    from .trust.retention import Policy, Retained, Retention
    from .verifying import Report

# Contexts, projections and queries are imported by the calls that need them. So a program with chats only never loads
# pools, windows, memory and runs, which would double the time to open a store.
Adopted = TypeVar(
    "Adopted", "ChatContext", "ContextQueue[Any]", "ContextPool[Any]", "ContextWindow", "MemoryScope", "Run"
)


class Store:
    """
    Contexts in an SQLite file, in PostgreSQL or in memory, with the same calls for all three.

    Its methods may be called from any thread. In a running event loop use an `AsyncStore`, as `refold.aopen` gives it.
    """

    def __init__(
        self,
        log: LiveLog,
        projections: ProjectionStore,
        *,
        durability: Durability = "commit",
        opened_at: str | None = None,
        system: System = REAL_SYSTEM,
        gate: Gate | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.log = log if gate is None else gated(log, gate)
        # Projections are folded, and the store is checked, for everybody: the gate asks for the answers.
        self._whole_log = log
        self._checkpoints = checkpoints
        self._system = system
        self._durability = durability
        self._projections = projections
        self._runner = ProjectionRunner(log, projections)
        self._unflushed: set[Journal[Any]] = set()
        self._end = LogEnd(log, system)
        flush_at_exit(self._unflushed)
        self._warning = None if opened_at is None else warn_of_unclosed(self, opened_at)
        self._opened_at = opened_at or ":memory:"
        if checkpoints is not None:
            # A program that ends without `close` hands over its last checkpoint, too.
            finalize(self, checkpoints.close)

    __reduce__ = refuse_copy

    def __repr__(self) -> str:
        return f"Store({self._opened_at!r})"

    @cached_property
    def _moments(self) -> MomentNames:
        return MomentNames(self._attachment("commit"))

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

        A new context shares its slice with the other contexts of its `session`; `agent` is the default actor of its
        events.

        Raises:
            InvalidInputError: the id is invalid, or the context has another user, session or agent.
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
        journal = self._journal(context_id, Opening("chat", CHAT, opened, Open), create, durability)
        return ChatContext(journal=journal, system=self._system)

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
        Open a context queue, or create it; a new one holds 10 items unless `limit` is given.

        Raises:
            InvalidInputError: the id is invalid, the limit is less than 1, or the queue was opened with another user,
                session or agent, or has another limit or other tags (`change_settings` changes them).
            NotFoundError: it does not exist and `create` is False.
        """
        from ..domain.pool.queue import ContextQueue
        from .context_settings import ContainerSettings

        settings = ContainerSettings(limit, None if tags is None else require_tags(tags))
        opening = settings.opening(ContextQueue, user=user, session=session, agent=agent)
        return settings.container_on(self._journal(context_id, opening, create, durability), ContextQueue, self._system)

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
        from ..domain.pool.pool import ContextPool
        from .context_settings import ContainerSettings

        settings = ContainerSettings(limit, None if tags is None else require_tags(tags))
        opening = settings.opening(ContextPool, user=user, session=session, agent=agent)
        return settings.container_on(self._journal(context_id, opening, create, durability), ContextPool, self._system)

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
        Open a context window, or create it; a new one holds 100,000 tokens, with the policy `first_come`, unless others
        are given.

        `counter` counts the items that this handle adds; earlier items keep their counted size.

        Raises:
            InvalidInputError: the id is invalid, or the window was opened with another user, session or agent, or has
                another budget or policy (setting `window.max_tokens` changes it).
            NotFoundError: it does not exist and `create` is False.
        """
        from .context_settings import WindowSettings

        settings = WindowSettings(max_tokens, policy, counter)
        opening = settings.opening(user=user, session=session, agent=agent)
        return settings.window_on(self._journal(context_id, opening, create, durability), self._system)

    def memory(self, *, durability: Durability | None = None) -> Memory:
        """Return the memory of this store, which has records in scopes."""
        return self._memory(durability, NO_TRACE)

    def _memory(self, durability: Durability | None, trace: Trace) -> Memory:
        from ..domain.memory.memory import Memory

        return Memory(self._attachment(durability), trace=trace)

    def _attachment(self, durability: Durability | None) -> Attachment:
        return Attachment(
            self.log,
            system=self._system,
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

        A request without a session has its own window. Its events have the trace, and the endpoint as their actor
        unless another actor is set.

        Raises:
            InvalidInputError: the id of the session or trace is invalid for a window, or the window has another budget
                or policy.
        """
        from ..domain.window.window import AgentContext
        from .context_settings import WindowSettings

        settings = WindowSettings(max_tokens, policy, counter)
        # A session may begin before its user is known, so the window keeps the user and session of its first request.
        opening = settings.opening(user=user_id, session=session_id, agent=None, settled=())
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
            context_window=settings.window_on(journal, self._system, trace),
            memory=self._memory(durability, trace),
        )

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

        With `sub_id=None` it creates the run of the next sub-agent. In one process, a run is always the same object
        while a reference to it exists. A new round of the main agent restores the earlier rounds unless `restore` is
        False.

        Raises:
            InvalidInputError: a part of the identity is invalid, the run belongs to another agent, or a sub-agent has
                no main run.
            NotFoundError: it does not exist and `create` is False; with `sub_id=None` it never exists.
        """
        return self._runs.run(user_id, session_id, run_id, sub_id, agent=agent, restore=restore, create=create)

    @property
    def _runs(self) -> RunFactory:
        """The factory of runs, created with the first run: all callers get the same object for a run."""
        from ..domain.trajectory.factory import RunFactory

        made: RunFactory | None = self.__dict__.get("_run_factory")
        if made is None:
            # One atomic step, so that two threads get the same factory.
            made = self.__dict__.setdefault("_run_factory", RunFactory(self._attachment(self._durability)))
        return made

    def release_runs(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: int | None = None,
        sub_id: int | None = None,
    ) -> int:
        """
        Release all run objects, or those of a user, session, round or agent; return how many.

        No event changes; a later call returns a new object.
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
        Write a detached context, with its whole history, into this store; from then on it is attached here.

        The contexts from which it was forked, and those merged into it, are written too, under ids made from
        `context_id`.

        Raises:
            InvalidInputError: it is already in a store, the id is invalid, a run restores rounds that are different
                here, or a transaction is open.
            ConcurrencyError: there is a context with this id.
        """
        kind = require_instance(context, Context, "the context", "give a detached one, as ChatContext()").stream_kind
        if not context.is_detached:
            raise InvalidInputError(f"{kind} context {context.id!r} is kept in a store already: fork or branch it")
        require_no_transaction(self.log, "nothing is adopted")
        place = Place(stream_id(kind, context_id), context_id)
        context.flush()
        events = context.adopted_events(place.stream, root=place.root)
        self.log.append(missing_streams(self.log, events, place.stream)).result()
        context.attach(self.log, place, self._durability, self._unflushed)
        if kind == "run":
            self._runs.keep(cast("Any", context))
        return context

    def transaction(self, *, idempotency_key: str | None = None) -> AbstractContextManager[Transaction]:
        """
        Commit all changes that the block makes to contexts of this store as one, or none of them.

        A rolled-back transaction restores every view.
        """
        return transaction(self.log, idempotency_key=idempotency_key)

    def now(self) -> Moment:
        """Return the moment of the last event; a subscription after it yields only new events."""
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
        Return an endless iterator, for `for` or `async for`, over the events after `after`, from the past into the
        present; without `after` it starts at the beginning.

        `kinds` selects the events of some kinds of contexts (`"chat"`, `"run"`), `contexts` those of some contexts, as
        `kind:id`. With a `name` the store remembers what `ack()` acknowledged, and the next subscription with that name
        continues there; `after` is only for the first one.

        Raises:
            InvalidInputError: there is no such kind, a context is given without its kind, the name is invalid, or
                `after` is no moment.
        """
        if after is not None:
            require_instance(after, Moment, "after", "give a moment, as `store.now()` or `store.moments()` returns it")
        cursor = None if name is None else Cursor(self._projections, name)
        start = (cursor.moment if cursor else None) or after or BEGINNING
        return Subscription(self.log, after=start, wanted=event_filter(kinds, contexts), cursor=cursor)

    def recorder(self, context: str | None = None, *, slice_number: int | None = None) -> StoreRecorder:
        """
        Return the events of this store as a recorder of the `eventsourcing` package, for its projections and followers.

        On SQLite and in memory it has the whole log. On PostgreSQL it has one slice, given by its number or by a
        context in it; all contexts of a session are in one slice. Events that `durability="enqueue"` has queued are not
        included yet.

        Raises:
            NotFoundError: there is no such context.
            InvalidInputError: the store is on PostgreSQL and no slice is given, or a slice is given and the store has
                none.
        """
        # Importing the `eventsourcing` package takes longer than importing Refold, and few programs need it.
        from .recorders.store import StoreRecorder

        stream = None if context is None else context_named(self.log, context)
        if stream is not None and self.log.has_slices:
            slice_number = self.log.read(stream, until=1)[0].position.slice
        return StoreRecorder(self.log, slice_number)

    def flush(self) -> None:
        """
        Wait until all queued events of this store's contexts are on disk.

        Raises:
            RefoldError: events were refused; it has those of all contexts as `refused`.
        """
        flush_all(self._unflushed)
        if self._checkpoints is not None:
            self._checkpoints.write()

    # The past

    def at(self, moment: str | datetime | Moment | Position) -> StoreAt:
        """
        Return the whole store as it was: at a position of its log (`"pos:17"`, a Moment, an event's position), at a
        time, or at a named moment. All contexts are read-only and show that moment.

        Raises:
            InvalidInputError: it is none of these; a version belongs to one context.
            NotFoundError: no moment has this name, or the log does not go as far as this position.
        """
        from .queries.at import StoreAt

        self.flush()
        return StoreAt(self, cut_at(moment, self._moments, self._end))

    def diff(
        self, before: str | datetime | Moment | Position, after: str | datetime | Moment | Position | None = None
    ) -> list[ContextDifference]:
        """
        Return the contexts that differ between two moments, or between one and now, with their rows at both.

        Raises:
            InvalidInputError, NotFoundError: as for `at`.
        """
        from .queries.at import store_difference

        return store_difference(self.at(before), self.at(self.log.now() if after is None else after))

    def what_if(self, moment: str | datetime | Moment | Position) -> WhatIf:
        """
        Return an object that branches several contexts as they were at one moment, in memory; keep the branches or not.

        Raises:
            InvalidInputError, NotFoundError: as for `at`.
        """
        from .queries.what_if import WhatIf

        self.flush()
        return WhatIf(self.log, cut_at(moment, self._moments, self._end), self._system)

    def name_moment(self, name: str, moment: str | datetime | Moment | Position | None = None) -> Moment:
        """
        Give a name to a moment of the log, by default the present one, and return the moment. A name that is given
        again moves.

        Raises:
            InvalidInputError: the name is invalid, a transaction is open, or the moment is a time: name a position.
            NotFoundError: no moment has this name, or the log does not go as far as this position.
        """
        require_name(name, "moment")
        self.flush()
        cut = self._end.now() if moment is None else cut_at(moment, self._moments, self._end)
        if not isinstance(cut, Moment):
            raise InvalidInputError(f"{moment!r} is a time, and times need no name: give a position")
        self._moments.name(name, cut)
        return cut

    def moments(self) -> dict[str, Moment]:
        """Return the named moments."""
        return self._moments.moments()

    # Queries of projections

    def contexts(self) -> list[CatalogueRow]:
        """Return the catalogue row of every context, ordered by kind and id."""
        from ..projections.catalogue import CATALOGUE

        return self._sampled(self._runner.rows(CATALOGUE))

    def _sampled(self, rows: list[CatalogueRow]) -> list[CatalogueRow]:
        """Return rows, of which one is compared with its events now and then, where a witness knows these."""
        if self._checkpoints is not None and rows:
            self._checkpoints.sample(rows)
        return rows

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
        Return a page of the contexts that match, ordered by kind and id, and the cursor for the next page.

        `since` and `until` (not included) are times of the last change.

        Raises:
            InvalidInputError: there is no such kind, a time has no zone, or the limit is invalid.
        """
        from .queries.pages import ContextFilter, context_page

        chosen = ContextFilter(kind=kind, user=user, session=session, agent=agent, since=since, until=until)
        return context_page(self._runner, chosen, limit=limit, cursor=cursor)

    def validity(self, context_id: str) -> list[Interval]:
        """
        Return the intervals in which each item of a chat was in the view, from version `v0` on and before `v1`.

        The items come in their order in the view, with those that left and those with which a fork began. The view at a
        version consists of the intervals that hold it (`refold.infrastructure.queries.intervals.ids_seen`).

        Raises:
            NotFoundError: there is no such chat.
        """
        from .queries.intervals import intervals

        return intervals(self._runner, context_named(self.log, context_id, ("chat",)))

    def entries(
        self, context: str, at: int | str | datetime | Moment | None = None, *, with_gone: bool = False
    ) -> list[EntryStay]:
        """
        Return the entries of a queue or a pool, now or at a version, a time, a position (`"pos:17"`) or a name, in
        order.

        With `with_gone` the entries that had left by then are included, with each of their intervals: an entry is held
        at the version if its `v1` is 0 or later than the version. Contents are not read.

        Raises:
            NotFoundError: there is no such queue or pool, or no such version or name.
            InvalidInputError: both a queue and a pool match, or `at` is none of these.
        """
        from .queries.entries import entries_at

        stream = context_named(self.log, context, ("queue", "pool"))
        return entries_at(self.log, self._runner, stream, at, with_gone=with_gone)

    def lineage(self, context: str | None = None) -> list[LineageRow]:
        """
        Return the forks and merges of all contexts, or those from and into one, as edges, oldest first.

        Raises:
            NotFoundError: there is no such context.
            InvalidInputError: several contexts match: write its kind in front.
        """
        from .queries.pages import edges

        return edges(self._runner, None if context is None else context_named(self.log, context))

    def usage(
        self,
        *,
        by: Sequence[str] = ("day", "agent", "model"),
        since: date | str | None = None,
        until: date | str | None = None,
        context: str | None = None,
    ) -> list[UsageSum]:
        """
        Return how many tokens agents used, and the cost: a row for each combination of the names `by`, which are some
        of day (UTC), agent, model, context and user. `since` and `until`, both days included, or a `context` limit it.

        Raises:
            NotFoundError, InvalidInputError: as for `lineage`; or a day is none, or `by` has another name.
        """
        from ..projections.catalogue import CATALOGUE
        from ..projections.usage import USAGE, require_names, summed_by

        first, last = (None if day is None else day_named(day) for day in (since, until))
        only = None if context is None else context_named(self.log, context)
        users = self._runner.page(CATALOGUE, where={"key": only} if only else {}) if "user" in require_names(by) else []
        # The keys of rows begin with their day and a slash, which comes before 0.
        end, where = last and f"{last}0", {"context": only} if only else {}
        return summed_by(self._runner.page(USAGE, after=first or "", before=end, where=where), by, self._sampled(users))

    def pending_approvals(self) -> list[PendingApproval]:
        """
        Return the calls of all chats that wait for a person's decision, the longest waiting first.

        A request is listed in the chat where it was made, and not in forks of that chat. Each listed chat is loaded.
        """
        from ..projections.approvals import APPROVALS, REQUESTED
        from .queries.approvals import pending_approvals

        rows = self._runner.page(APPROVALS, where={"state": REQUESTED})
        return pending_approvals(rows, lambda context_id: self.chat(context_id, create=False))

    def saved_states(self, framework: str, context: str | None = None, *, prefix: str = "") -> list[SavedStateRow]:
        """
        Return what a framework saved last under each key that begins with `prefix`, in all chats or in one.

        Sorted by chat and version; `chat.saved_states.at(row.version)` has the data. An unknown chat: NotFoundError.
        """
        from ..projections.saved_states import SAVED_STATES, states_prefix

        stream = None if context is None else context_named(self.log, context, ("chat",))
        start = states_prefix(require_unicode(framework, "the framework"), stream)
        found = self._runner.rows_under([SAVED_STATES], [start])
        kept = (row for row in found if not row.is_deleted and row.name.startswith(prefix))
        return sorted(kept, key=lambda row: (row.context, row.version))

    def rollup(self) -> list[RollupRow]:
        """Return the summary of the log, one row for every 1,024 positions of a slice."""
        from ..projections.rollup import ROLLUP

        return self._runner.rows(ROLLUP)

    def search(
        self, query: str, *, kind: str | None = None, context: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        """
        Return the items that contain all words of `query`, the best first; items that left the view are found as well.

        `"in quotes"` finds adjacent words, `begin*` the beginning of a word; no other sign has a meaning. Case and
        accents make no difference. `context` is given with or without its kind; a search in it includes the past that
        it kept from the context it was forked from, and what merges brought in.

        Raises:
            InvalidInputError: the query has no word, or there is no such kind.
            LimitExceededError: it has too many words.
            NotFoundError: there is no such context, or none of this kind.
        """
        from .queries.search import search

        return search(self.log, self._runner, query, kind=kind, context=context, limit=limit)

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

        A context is given with or without its kind, an item by its id or key, or by its origin, `stream@version`. A
        chat has the attributes `instructions` and `tools`; the settings of other contexts are attributes, too. A fork
        has the changes since it was forked. User, session, round and agent select a node, as for `audit_node`.

        Raises:
            NotFoundError: there is no such context or node, or it never had that item, or no change of that attribute.
            InvalidInputError: several match; or an item of a node, or a session of a context, was given.
        """
        from .queries.audit import of_attribute, of_item, transitions_of
        from .queries.node_audit import is_node_name, node_changes

        where = {"user_id": user_id, "session_id": session_id, "run_id": run_id, "sub_id": sub_id}
        if is_node_name(subject):
            if item is not None:
                raise InvalidInputError(f"{subject} is a node, and items are in contexts: leave out item={item!r}")
            changed = self.audit_node(subject, attribute, **where)  # type: ignore[arg-type]  # each has its own type
            return transitions_of(self.log, node_changes(self.log, subject, changed))
        if any(value is not None for value in where.values()):
            raise InvalidInputError(f"{subject} is a context: user, session, round and agent say which node is meant")
        stream = context_named(self.log, subject)
        changes = self._changes(stream, with_config=item is None)
        if item is not None:
            changes = of_item(changes, require_unicode(item, "the item"), stream)
        if attribute is not None:
            changes = of_attribute(changes, attribute, stream)
        with trusted(stream):
            return transitions_of(self.log, changes)

    def why_gone(self, context: str, item: str) -> WhyGone:
        """
        Return why an item is not in a context: the event that removed it, here or in the context it was forked from.

        The context is given with or without its kind, the item by its id or key, or by its origin, `stream@version`.
        The answer may also be that the item is there, or never was.

        Raises:
            NotFoundError: there is no such context.
            InvalidInputError: several contexts match, or it holds no items, as a run.
        """
        from .queries.why_gone import why_gone

        stream = context_named(self.log, context)
        if split_stream_id(stream)[0] not in ITEM_KINDS:
            raise InvalidInputError(f"{stream} holds no items: `audit` tells what became of its nodes")
        return why_gone(self.log, self._runner, stream, require_unicode(item, "the item"))

    def _changes(self, stream: str, *, with_config: bool) -> list[AuditEntry]:
        from .queries.audit import config_changes, context_changes, run_changes
        from .queries.intervals import intervals

        kind, context_id = split_stream_id(stream)
        head = self.log.head(stream)
        if kind == "run":
            return list(run_changes(self.log, self.run(*run_id_of(context_id), create=False), head))
        changes = list(context_changes(self.log, stream, head))
        if kind == "chat" and with_config:
            changes += config_changes(self.log, stream, intervals(self._runner, stream))
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
        Return the nodes of a session, or of one round or agent, or of one type.

        The nodes are as they are now, round after round in the order of registration. Removed nodes are left out.

        Raises:
            InvalidInputError: a part of the identity is invalid, or there is no such type.
        """
        from .queries.runs import Selected, run_nodes

        return run_nodes(self._runner, Selected(user_id, session_id, run_id, sub_id), node_type)

    def run_edges(
        self, user_id: str, session_id: str, run_id: int | None = None, sub_id: int | None = None
    ) -> list[EdgeRow]:
        """
        Return the edges between nodes of the same round; the edges between rounds follow from the rounds.

        Raises:
            InvalidInputError: a part of the identity is invalid.
        """
        from .queries.runs import Selected, run_edges

        return run_edges(self._runner, Selected(user_id, session_id, run_id, sub_id))

    def run_graph(self, user_id: str, session_id: str, run_id: int | None = None, sub_id: int = 0) -> Trajectory:
        """
        Restore the graph of one agent from the tables: all its rounds with the bridges between them, or one round.

        Edges from one round to another that are not bridges are not in the tables; `run.graph()` has them.

        Raises:
            InvalidInputError: a part of the identity is invalid.
            NotFoundError: there is no node.
        """
        from .queries.runs import Selected, run_graph

        return run_graph(self._runner, Selected(user_id, session_id, run_id, sub_id))

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
        Return every change of a node's attributes, or of one attribute: old and new value, actor, time and causes.

        A data node is the same in all rounds and for all agents of its session. User and session may be left out if
        only one session has such a node; round and agent select the run of a query, action or state.

        Raises:
            InvalidInputError: the name is not of the form `Type(label)`, or several nodes match.
            NodeNotFoundError: there is none.
            NotFoundError: the node never had that attribute.
        """
        from .queries.node_audit import AskedNode, audit_node

        return audit_node(self._runner, AskedNode(node, user_id, session_id, run_id, sub_id), attribute)

    # Projections

    def add_projection(self, projection: Projection) -> None:
        """
        Add a projection of your own, which the store keeps up to date like its own; `rows` returns its rows.

        Raises:
            InvalidInputError: it is no projection, its rows cannot be stored, their fields changed and its version did
                not, or there is one with this name.
        """
        self._runner.add(projection)

    def rows(self, name: str, *, under: str = "") -> list[Any]:
        """
        Return the rows of a projection whose keys begin with `under`, by key, after bringing it up to date.

        Raises:
            NotFoundError: there is no such projection.
            ProjectionError: it cannot fold an event.
        """
        projection = self._runner.named(name)
        require_unicode(under, "under")
        return self._runner.rows_under([projection], [under]) if under else self._runner.rows(projection)

    def projections(self) -> list[ProjectionStatus]:
        """Return the status of each projection: how far behind, who works on it, its fault, its set-aside events."""
        from .projecting.status import status_of

        return [status_of(self._whole_log, self._projections, one) for one in self._runner.projections.values()]

    def events_missed(self) -> int:
        """
        Return how many events are missing from the answers that this store has given so far.

        Projections set events aside if they cannot fold them; `projections()` lists these events with the reasons.
        """
        asked = list(self._runner.asked.values())
        return len({aside.event for projection in asked for aside in self._projections.set_aside(projection)})

    def on_folding(self, tell: Callable[[int, int], object] | None) -> None:
        """
        Have `tell` called while a question first folds events: with the number of folded events, and of all events.

        It is called after each page of about 2,000 events, in the thread that asked. None ends this.
        """
        self._runner.on_page = tell if tell is None else require_callable(tell, "tell")

    def rebuild(
        self,
        name: str,
        *,
        restart: bool = False,
        progress: Progress | None = None,
        stop: Stop = lambda: False,
        executor: Executor | None = None,
        partitions: int | None = None,
        swap: bool = True,
    ) -> RebuildReport:
        """
        Make the rows of a projection again, next to those in use, and replace them at the end.

        A rebuild that `stop` ended, or that was killed, continues where it was, unless `restart`. Without `swap` the
        report says how the new rows differ from those in use, and both stay: the next rebuild replaces the rows in use,
        and `discard_rebuild()` drops the new ones.

        With an `executor`, a `ProcessPoolExecutor` or that of a Dask client, its workers fold the log in `partitions`,
        by default one for each core. They open the store at its location, and must be able to import your projections.
        This process alone rebuilds a store in memory or with its own codec, and what is searched or crosses slices.

        Raises:
            NotFoundError: there is no such projection.
            InvalidInputError: `partitions` is less than 1 or more than PARTITIONS_MAX, or there is no `executor`.
            ProjectionError: it cannot fold an event; the rows in use are kept.
        """
        from .projecting.rebuild import Workers, rebuild

        projection = self._runner.named(name)
        workers = Workers.of(executor, partitions)
        return rebuild(
            self._whole_log, self._projections, projection, restart=restart, progress=progress, stop=stop,
            workers=workers, swap=swap,
        )  # fmt: skip

    def check(self, name: str, *, progress: Progress | None = None, stop: Stop = lambda: False) -> RebuildReport:
        """
        Make the rows of a projection again, and report how they differ from those in use; change nothing.

        Raises:
            NotFoundError: there is no such projection.
            ProjectionError: it cannot fold an event.
        """
        from .projecting.rebuild import check

        return check(self._whole_log, self._projections, self._runner.named(name), progress=progress, stop=stop)

    def discard_rebuild(self, name: str) -> bool:
        """
        Drop the rows that a rebuild made and did not put in use; return whether there were any.

        Raises:
            NotFoundError, StorageBusyError: there is no such projection, or another process is rebuilding it.
        """
        from .projecting.rebuild import discard

        return discard(self._whole_log, self._projections, self._runner.named(name))

    def start_projections(self, names: Iterable[str] | None = None) -> WorkingThread:
        """
        Keep projections up to date in a thread until its `stop()`; several processes may do so.

        Raises:
            NotFoundError: there is no such projection.
        """
        from .projecting.worker import WorkingThread

        return WorkingThread(self._worker(names))

    def run_projections(self, stop: threading.Event, names: Iterable[str] | None = None) -> None:
        """
        Keep projections up to date in this thread until `stop` is set.

        Raises:
            LogWentBackError: the file of the store was deleted or replaced; open the store again.
            NotFoundError: there is no such projection.
        """
        self._worker(names).run(stop)

    def verify(
        self,
        *,
        repair: bool = False,
        progress: Progress | None = None,
        stop: Stop = lambda: False,
        processes: int | None = None,
    ) -> Report:
        """
        Check everything: versions, positions, digests, references, large texts, keys, and every projection.

        The report lists all problems. With `repair`, projections that differ from the log are rebuilt; no event
        changes. A store with a witness is compared with all checkpoints of the witness, for which its events are read
        once more. In a database of 100,000 events and more, other processes of this machine help, one for each further
        core, at most 2; with `processes=1` there are none. `stop` is called after each page of events.

        Raises:
            InvalidInputError: `processes` is less than 1.
        """
        from .verifying import verify, with_faults

        report = verify(
            self._whole_log, self._projections, self._runner.projections.values(), repair=repair, progress=progress,
            stop=stop, processes=processes,
        )  # fmt: skip
        is_witnessed = self._checkpoints is not None and report.is_done
        return with_faults(report, self.compare_with_witness(stop)) if is_witnessed else report

    # Evidence

    def compare_with_witness(self, stop: Stop = lambda: False) -> list[tuple[str, str]]:
        """
        Return where the events differ from any checkpoint that the witness has, and why; all events are read.

        Raises:
            InvalidInputError: the store has no witness.
        """
        from .trust.proofs import faults_of

        return faults_of(self._witnessed_by(), stop)

    def witnessed(self) -> WitnessState | None:
        """Return what the witness of this store saw last, and whether it can be reached; None if it has no witness."""
        from .trust.proofs import state_of

        return None if self._checkpoints is None else state_of(self._checkpoints)

    def prove(self, event: str) -> dict[str, Any]:
        """
        Return the proof that an event, `stream@version`, is among those of the last checkpoint, for somebody who has
        this checkpoint from the witness: plain data, which a few lines check without Refold (docs/how-to/prove.md).

        Raises:
            InvalidInputError: it is no reference, or the store has no witness, or one that has not seen the event.
            NotFoundError: there is no such event.
            TamperedError: the events are not those that the witness saw.
        """
        from .trust.proofs import prove

        return prove(self._witnessed_by(), event)

    def prove_consistency(self, earlier: int) -> dict[str, Any]:
        """
        Return the proof that the last checkpoint continues an earlier one, given by its number of events: nothing
        before it was changed since.

        Raises:
            InvalidInputError: the store has no witness.
            NotFoundError: the witness has no such checkpoint.
        """
        from .trust.proofs import prove_consistency

        return prove_consistency(self._witnessed_by(), earlier)

    def _witnessed_by(self) -> Checkpoints:
        if self._checkpoints is None:
            raise InvalidInputError("the store was opened without its witness: open it with witness=")
        return self._checkpoints

    def backup(self, path: str | Path, *, progress: Callable[[int, int], None] | None = None) -> BackupReport:
        """
        Bring the backup in a file up to the present end of this store, beside its writers; a new file gets all of it.

        The whole file is checked first, and what was written is read back. If the call breaks off, the backup before
        counts. `refold.restore` makes a store of the file.

        Raises:
            InvalidInputError: the file cannot be written, is no backup, or is one of another store.
            DamagedError: the file was changed or cut off (a DamagedFileError), or this store is damaged.
            LogWentBackError: this store lacks events that are in the backup.
            StorageBusyError: another process is writing the file.
        """
        from .exchange.backup import back_up_store

        self.flush()
        return back_up_store(self._whole_log, self._projections, path, progress=progress)

    def vacuum(self) -> int:
        """
        Give back the room of deleted rows, beside readers and writers; return how many bytes the database takes less.

        A file that an earlier Refold made keeps it; a copy of it does not. PostgreSQL keeps most of it for new rows.

        Raises:
            StorageError: the database may not be written, or refused.
        """
        from .space import give_back

        return give_back(self._whole_log)

    def rotate_keys(self, *, renew: bool = False) -> int:
        """
        Wrap the data keys of the store with the newest master key, and return how many had another one.

        No event is written anew. With `renew` each subject also gets a new data key, for its events from now on.

        Raises:
            InvalidInputError: the store was made without keys.
            KeyUnavailableError: a master key in use is not there.
        """
        from .databases import ring_of

        ring = ring_of(self._whole_log)
        if renew:
            ring.renew()
        return ring.rotate()

    # Erasing

    def erase(
        self,
        *,
        why: str,
        user: str | None = None,
        context: str | None = None,
        item: str | None = None,
        dry_run: bool = True,
        signer: Signer | None = None,
    ) -> Erasure:
        """
        Return what would be erased for a user, a context or an item of a context; erase it with `dry_run=False`.

        Erased are all texts, from the log and from everything made of it; `[erased]` stands in their places. An item is
        given by its id or key, by the name of a node, or as `stream@version`. A `signer`, as an Ed25519 private key,
        signs the receipt. It takes as long as reading the store, rebuilding projections and copying the database.

        Raises:
            InvalidInputError: not exactly one thing is asked for, no reason is given, or a transaction is open.
            NotFoundError: there is no such context or item, or nothing of the user.
            HeldError: a context that must be kept would lose texts.
        """
        from .trust.erasing import ErasureRequest

        self.flush()
        wanted = ErasureRequest(why, user, None if context is None else (context,), item)
        return self._eraser.erase(wanted, dry_run=dry_run, signer=signer)

    def hold(self, context: str, *, why: str) -> None:
        """
        Refuse, from now on, to erase anything that a context shows.

        Raises:
            NotFoundError: there is no such context.
        """
        from ..domain.erasure.events import ContextHeld

        self._eraser.record(ContextHeld(context=context_named(self.log, context), why=require_unicode(why, "why")))

    def release(self, context: str, *, why: str) -> None:
        """
        Let a context that was held be erased again.

        Raises:
            NotFoundError: there is no such context.
        """
        from ..domain.erasure.events import ContextReleased

        self._eraser.record(ContextReleased(context=context_named(self.log, context), why=require_unicode(why, "why")))

    def holds(self) -> dict[str, str]:
        """Return the contexts that are held, and why."""
        return dict(self._eraser.state.held)

    def retain(
        self,
        name: str,
        keep: str | int | timedelta,
        *,
        why: str,
        kind: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        source: str | None = None,
        tag: str | None = None,
    ) -> Policy:
        """
        Set a policy: contexts of this kind, user, agent, source and tag, as far as they are given, are erased so long
        after their last event. `keep` is a number of days, or a text as "400 days". A tag is one of a queue or pool, or
        an attribute of a chat, as "name" or "name=value"; a fork has those of the chat that it comes from.

        `apply_retention()` and `refold run` apply it. The same name again changes it. A user is kept as a salted hash.

        Raises:
            InvalidInputError: an argument is invalid, there is no such kind, or nothing says which contexts.
        """
        from .trust.retention import Matching

        return self._retention.set(name, keep, why, Matching(kind, user, agent, source, tag))

    def stop_retaining(self, name: str, *, why: str) -> None:
        """
        End a policy; its contexts stay.

        Raises:
            NotFoundError: there is no such policy.
        """
        self._retention.end(name, why)

    def policies(self) -> list[Policy]:
        """Return the policies by which contexts are erased; at first there are none."""
        return self._retention.policies()

    def apply_retention(self, *, dry_run: bool = True) -> Retained:
        """Return the contexts whose time is over by some policy; erase them with `dry_run=False`."""
        self.flush()
        return self._retention.apply(self._system.now(), dry_run=dry_run)

    def archive(
        self,
        file: str | Path,
        *contexts: str,
        why: str,
        idle: str | int | timedelta | None = None,
        dry_run: bool = False,
    ) -> Archived:
        """
        Put the texts of contexts into a new file: of those named, or of all without an event for `idle`, as "90 days".

        `[archived]` stands in their places until `unarchive`. The file of an encrypted store is encrypted.

        Raises:
            InvalidInputError: nothing says which contexts, or why; a transaction is open; the file is there already, or
                cannot be written; one is archived already, or another one that stays took something from it.
            NotFoundError, HeldError: there is no such context, or it must be kept.
            StorageBusyError: others erased and archived all the time.
        """
        self.flush()
        return self._archivist.archive(file, contexts, idle, why, dry_run=dry_run)

    def unarchive(self, *contexts: str, file: str | Path | None = None) -> Archived:
        """
        Put texts back, but for those erased since, from an archive that may have moved to `file`; it stays as it is.

        Raises:
            NotFoundError: there is no such context, or it is not archived.
            InvalidInputError: they are in several files, the file cannot be read, or a transaction is open.
            DamagedFileError: the file is not as it was written.
        """
        self.flush()
        return self._archivist.unarchive(contexts, file)

    def archives(self) -> dict[str, str]:
        """Return the contexts whose texts are archived, each with the file that has them."""
        return {context: archive.file for context, archive in archives_in(self._whole_log).items()}

    @property
    def _archivist(self) -> Archivist:
        from .exchange.archiving import Archivist

        return Archivist(self._eraser, self._whole_log, self._runner, self._system)

    @property
    def _retention(self) -> Retention:
        from .trust.retention import Retention

        return Retention(self._eraser, self._whole_log, self._runner)

    def _with_erasures_finished(self) -> Self:
        """Finish erasures that a process left unfinished when it was killed, and return the store."""
        # Calls that read a damaged database say what is wrong with it; some need nothing of the damaged part.
        with suppress(RefoldError):
            if self._whole_log.head(ERASURES):
                self._eraser.finish_what_is_left()
        return self

    @property
    def _eraser(self) -> Eraser:
        from .trust.erasing import Eraser

        return Eraser(self._whole_log, self._runner, self._projections, self._system)

    def _worker(self, names: Iterable[str] | None) -> ProjectionWorker:
        from .projecting.worker import ProjectionWorker

        chosen = list(self._runner.projections) if names is None else require_texts(names, "names")
        return ProjectionWorker(self._whole_log, self._projections, [self._runner.named(name) for name in chosen])

    # The end

    async def aflush(self) -> None:
        """`flush()` for a running event loop."""
        await in_thread(self.flush)

    def close(self) -> None:
        """Flush what is queued, read the rest of lists of items in use, and close; may be called twice."""
        if self._warning is not None:
            self._warning.detach()
        with ExitStack() as closing:
            closing.push(flush_behind(self._unflushed))
            closing.callback(self.log.close)
            if self._checkpoints is not None:  # also where queued events are refused
                closing.callback(self._checkpoints.close)
            self.flush()
            read_before_closing(self.log)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
