"""A run: one round of one agent, as a graph of its questions, actions, conclusions and data."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import partial
from typing import Any

from ..arguments import require_whole
from ..canonical import Without, canonical_json, parse_json, require_unicode
from ..concurrency.semaphore import Semaphore
from ..concurrency.threads import in_thread
from ..context.adopt import adopted_events
from ..context.context import Attachment, Context
from ..context.folded_stream import Durability, Place
from ..context.journal import OPENING, Journal
from ..context.transaction import current_transaction, log_within
from ..errors import ConcurrencyError, DecisionRefusedError, InvalidInputError, StorageClosedError, StorageError
from ..ids import split_stream_id
from ..log.envelope import acting
from ..log.ports import Log, NewEvents
from ..messages import Message, build_current_context, clean_messages, message_to_dict, recorded_message
from ..positions import Moment
from ..spans import Ref, Segment
from . import commands
from .descriptions import PortraitTasks, in_daemon_thread
from .events import QUEUES, NodeEvent, PortraitRequested, RoundsRestored, StepQueued, StepRefused, StepTaken, type_of
from .graph import RunGraph, trajectory_of, typed_node
from .history import (
    AttributeVersion,
    NodeVersion,
    TrajectoryDiff,
    attribute_versions,
    compared,
    node_versions,
    numbered_version,
    present_vertex,
)
from .identity import RunId, flush_streams, is_run_id, run_id_of
from .nodes import DATA, BaseIR, RunStateError, node_name
from .prompts import DescriptionModel, Portrayer, asking_of, portrait_question
from .rules import is_undescribed, require_queue
from .state import Edge, RunState, past_rounds
from .trajectory import Trajectory

logger = logging.getLogger("refold.trajectory")
# The maximum number of steps in each queue of a run.
STEPS_MAX = 100
# The number of nodes that a model is asked about at once, and the number of attempts for one node.
PORTRAITS_AT_ONCE = 8
ATTEMPTS_MAX = 3
# The number of attempts to record an answer: other writers may come first, and an answer costs money.
RECORDINGS_MAX = 5
# The pause between two attempts; it doubles each time.
FIRST_PAUSE_SECONDS = 0.5
# The actor if the model has no name.
NAMELESS = "portrait"


class QueuedStep(dict[str, Any]):
    """
    A step of a queue: a dict with `name` and `params`, which is `{}` if the step has no parameters.

    `version` is the version of the run that queued it; `return_step` takes it.
    """

    def __init__(self, name: str, params: Any, version: int) -> None:
        super().__init__(name=name, params={} if params is None else params)
        self.version = version


class Run(Context[RunState]):
    """
    One round of one agent. Nodes are named `Type(label)`.

    `store.run(...)` gives one that is stored, `RunFactory().run(...)` a detached one, with a log in memory. Its methods
    may be called from any thread. Calls that change the run take `idempotency_key=` (a repeated call gives the first
    result); those that change the graph also take `expected_version=`.

    Raises:
        InvalidInputError: the name of a node is not of the form `Type(label)`, or a value is not JSON.
        NodeNotFoundError: there is no node of this name (a ValueError).
        RunStateError: the run is closed, and the call needs an open one (a RuntimeError).
        ConcurrencyError: another writer came first; only from calls that depend on the present graph.
    """

    identity: RunId
    # The maximum number of steps in each queue; an attribute, so that it can be set for one run.
    steps_max: int = STEPS_MAX
    # The steps that `init_todolist` uses by default; they can be set for one run.
    pre_workflow: Sequence[str | Mapping[str, Any]] = ()
    post_workflow: Sequence[str | Mapping[str, Any]] = ()
    _asking: DescriptionModel | None = None
    # The last state that was read, with its graph; and the same with its graph by names.
    _graph_cache: tuple[RunState, RunGraph] | None
    _trajectory_cache: tuple[RunState, Trajectory] | None

    def __init__(self, journal: Journal[RunState], attachment: Attachment, identity: RunId) -> None:
        self.identity = identity
        self._stand_on(journal, attachment)
        self._portraits = PortraitTasks()
        self._semaphore = Semaphore(PORTRAITS_AT_ONCE)

    @property
    def _graph(self) -> RunGraph:
        state = self._state
        cached = self._graph_cache
        if cached is None or cached[0] is not state:
            cached = self._graph_cache = (state, RunGraph(state))
        return cached[1]

    def _forget_shown(self) -> None:
        self._graph_cache = self._trajectory_cache = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.identity))}, version={self.version})"

    @property
    def user_id(self) -> str:
        """The user whose session it is."""
        return self.identity.user_id

    @property
    def session_id(self) -> str:
        """The session, to which its rounds belong."""
        return self.identity.session_id

    @property
    def run_id(self) -> int:
        """The round, from 0."""
        return self.identity.run_id

    @property
    def sub_id(self) -> int:
        """The agent: 0 is the main one."""
        return self.identity.sub_id

    @property
    def agent(self) -> str | None:
        """The name of the agent, which is the default actor of the run's events."""
        return self._journal.place.actor

    @property
    def is_closed(self) -> bool:
        """Whether the run was closed."""
        return self._state.is_closed

    def __setattr__(self, name: str, value: Any) -> None:
        # Checked here, because the next call that uses it could only say that something is wrong.
        if name == "steps_max":
            require_whole(value, name)
        elif name in ("pre_workflow", "post_workflow"):
            # The check would use up an iterator.
            value = list(value) if isinstance(value, Iterator) else value
            _steps(value, name)
        super().__setattr__(name, value)

    # Changes of the graph

    def register_query(
        self,
        query: Any,
        additional_files: Any = (),
        *,
        label: str | None = None,
        description: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        **extra: Any,
    ) -> str:
        """
        Register the question of this round, and return its name: `Query(query00000)` at first.

        It becomes a pointer, and has bridges from the leaves of the round before.

        Raises:
            RunStateError: the run has a query already.
        """
        command = commands.RegisterQuery(
            fields={"query": query, "additional_files": additional_files, **extra},
            created_at=self._attachment.system.now(),
            label=label,
            description=description,
        )
        return self._register(command, expected_version, idempotency_key)

    def register_node(
        self,
        node_type: str,
        description: str,
        predecessor_node: Sequence[str],
        edge_type: str | None = None,
        label: str | None = None,
        add_pt: bool = False,
        remove_pt: bool = False,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> str:
        """
        Register a node with edges from its predecessors, and return its name.

        `edge_type` is only needed where there is no usual one. A state or an action replaces its predecessors as
        pointers. With `add_pt` they stay pointers beside it; with `remove_pt` they are no longer pointers, and neither
        is the new node. Data with a known label is met again: this makes a new version, which keeps the attributes that
        are not given.

        Raises:
            RunStateError: there is no query yet.
            InvalidInputError: no such type, no predecessor, a missing field, a label that is taken, or no edge type
                where there is no usual one.
        """
        command = commands.RegisterNode(
            type=node_type,
            description=description,
            predecessors=_node_names(predecessor_node or (), "predecessor_node"),
            fields=fields,
            created_at=self._attachment.system.now(),
            edge=edge_type,
            label=label,
            add_pointer=add_pt,
            remove_pointers=remove_pt,
        )
        if self._meets_again(node_type, label):
            self._look_for_erasures()
        return self._register(command, expected_version, idempotency_key)

    def _meets_again(self, node_type: object, label: object) -> bool:
        if not (isinstance(node_type, str) and node_type in DATA and isinstance(label, str)):
            return False
        gate = self._journal.gate
        # The gate is not asked here: an actor who may add a node need not be allowed to read the run.
        with nullcontext() if gate is None else gate.inside():
            return node_name(node_type, label) in self

    def _register(
        self,
        command: commands.RegisterQuery | commands.RegisterNode,
        expected_version: int | None,
        idempotency_key: str | None,
    ) -> str:
        # A repeated call has a later time, and is still the same call.
        call = Without(command, "created_at")
        events = self._record(command, expected_version, idempotency_key, catch_up=True, call=call).events
        event = next(event for event in events if isinstance(event, NodeEvent))
        return node_name(type_of(event), event.label)

    def modify_node(
        self,
        graph_node_label: str,
        changes: Mapping[str, Any],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Change attributes of a node; the old values stay in its history.

        Raises:
            UnknownAttributeError: it has no such attribute, or the attribute cannot be changed; nothing was changed.
        """
        if not isinstance(changes, Mapping):
            raise InvalidInputError(f"the changes are {changes!r}: give a dict of attributes and their values")
        command = commands.ModifyNode(graph_node_label, dict(changes))
        self._look_for_erasures()
        self._warn_of_types(command)
        self._record(command, expected_version, idempotency_key, catch_up=False)

    def _look_for_erasures(self) -> None:
        """
        Drop the state from memory if another process has erased something, before an event copies values of a node.

        Unlike the append of a summary, the append itself does not check for erasures: all runs would then wait for one
        slice.
        """
        from ..erasure.foreign_erasures import look

        look(self._journal.log)

    def _warn_of_types(self, command: commands.ModifyNode) -> None:
        """Log a warning for each value that gets another type, which is allowed."""
        graph = self._graph
        ref = graph.find(command.name)
        before = {} if ref is None else graph.attributes_of(ref)
        for name, value in command.changes.items():
            old = before.get(name)
            if old is not None and value is not None and type(old) is not type(value):
                given, had = type(value).__name__, type(old).__name__
                logger.warning("%s: %s becomes a %s, and was a %s", command.name, name, given, had)

    def remove_node(
        self,
        graph_node_label: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Remove a node and its edges; its history stays, and its predecessors replace it as pointers."""
        self._record(commands.RemoveNode(graph_node_label, reason), expected_version, idempotency_key, catch_up=False)

    def add_edge(
        self,
        source: str,
        target: str,
        edge_type: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Add an edge between two present nodes; if it exists already, nothing is recorded.

        Raises:
            InvalidInputError: no edge type where there is no usual one.
            DecisionRefusedError: the edge would close a cycle, or lead into a node of an earlier round.
        """
        self._record(commands.AddEdge(source, target, edge_type), expected_version, idempotency_key, catch_up=True)

    def move_pointers(
        self,
        *,
        leave: Iterable[str] = (),
        join: Iterable[str] = (),
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Make the nodes in `join` pointers; those in `leave` are no longer pointers."""
        command = commands.MovePointers(_node_names(leave, "leave"), _node_names(join, "join"))
        self._record(command, expected_version, idempotency_key, catch_up=False)

    # Earlier rounds

    def restore_previous_runs(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        current_run_id: int | None = None,
        sub_id: int | None = None,
    ) -> list[int]:
        """
        Make the graph go back over the earlier rounds of this session, as they are now, and return their numbers.

        The rounds are those of the same agent, or of `sub_id`. Missing rounds are bridged over. An event names the
        rounds; a repeated call records a new event only if they have changed.

        Raises:
            InvalidInputError: the user or the session is another one, or a number is not a whole number.
        """
        self._require_writer()
        for what, given, own in (("user_id", user_id, self.user_id), ("session_id", session_id, self.session_id)):
            if given not in (None, own):
                raise InvalidInputError(f"this run has the {what} {own!r}, and {given!r} was asked for: open that run")
        for what, number in (("current_run_id", current_run_id), ("sub_id", sub_id)):
            if number is not None:
                # A number below 0 is allowed: no round is before it.
                require_whole(number, what, least=None)
        until = self.run_id if current_run_id is None else min(current_run_id, self.run_id)
        agent = self.sub_id if sub_id is None else sub_id
        found = self._rounds_before(until, agent)
        if found or self._state.pins:
            event = RoundsRestored(rounds=tuple(found.values()))
            if event.rounds != self._state.pins:
                if (current := current_transaction(self._journal.log)) is not None:
                    # A change of one of their nodes must come after the event that registered the node.
                    current.record_after(self.stream_id, [one.stream for one in event.rounds])
                past = past_rounds(log_within(self._journal.log), event.rounds)
                # In a repeated transaction the rounds are restored already, so this is not one of its calls.
                self._record(commands.RestoreRounds(event, past), catch_up=True, call=OPENING)
        return list(found)

    def _rounds_before(self, until: int, agent: int) -> dict[int, Segment]:
        """Return the existing rounds of an agent in this session, by number, each up to its present version."""
        log, own = log_within(self._journal.log), self.identity
        ids = (split_stream_id(stream)[1] for stream in log.streams(own.session_prefix))
        # Streams that were imported with an adopted run have ids made from the run's id, and are not runs.
        runs = [run_id_of(context_id) for context_id in ids if is_run_id(context_id)]
        numbers = sorted(run.run_id for run in runs if run.sub_id == agent and run.run_id < until)
        streams = {number: own._replace(run_id=number, sub_id=agent).stream for number in numbers}
        flush_streams(self._attachment, *streams.values())
        return {number: Segment(stream, log.head(stream)) for number, stream in streams.items()}

    def get_historical_trajectory(self, run_id: int) -> Trajectory | None:
        """Return the graph of an earlier round alone, or None if it was not restored."""
        return self.get_all_historical_trajectories().get(require_whole(run_id, "run_id"))

    def get_all_historical_trajectories(self) -> dict[int, Trajectory]:
        """Return the graphs of the earlier rounds, each alone, by number."""
        return {
            opened.round: trajectory_of(
                RunGraph(past.state), RunId(self.user_id, self.session_id, opened.round, opened.sub)
            )
            for past in self._state.past
            if (opened := past.state.opened) is not None
        }

    # Steps and messages

    def init_todolist(
        self,
        pre_workflow: Iterable[str | Mapping[str, Any]] | None = None,
        post_workflow: Iterable[str | Mapping[str, Any]] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """
        Clear the queues `pre` and `post` and fill them; return the names of the steps for which there was no room.

        A step is a name, or a dict with `name` and, if it has any, `params`. If a workflow is not given,
        `self.pre_workflow` or `self.post_workflow` is used. `todo` stays as it is. A step without room is refused, and
        the refusal is recorded.

        Raises:
            RunStateError: both are empty.
            InvalidInputError: a step without a name.
        """
        pre = self.pre_workflow if pre_workflow is None else pre_workflow
        post = self.post_workflow if post_workflow is None else post_workflow
        queues = {"pre": _steps(pre, "pre_workflow"), "post": _steps(post, "post_workflow")}
        if not any(queues.values()):
            raise RunStateError("TodoListManager.init_todolist requires pre_workflow or post_workflow definitions.")
        command = commands.LoadSteps(queues, self.steps_max)
        call = Without(command, "capacity")
        events = self._record(command, None, idempotency_key, catch_up=True, call=call).events
        return [event.name for event in events if isinstance(event, StepRefused)]

    def append_todo(
        self,
        name: str,
        params: Any = None,
        list_type: str = "todo",
        *,
        idempotency_key: str | None = None,
    ) -> bool:
        """
        Put a step at the end of a queue, and return whether there was room; a refusal is recorded too.

        Raises:
            InvalidInputError: no such queue, or no name.
        """
        command = commands.QueueStep(require_queue(list_type), _step({"name": name, "params": params}), self.steps_max)
        call = Without(command, "capacity")
        events = self._record(command, None, idempotency_key, catch_up=True, call=call).events
        return any(isinstance(event, StepQueued) for event in events)

    def pop_todo(self, list_type: str = "todo", *, idempotency_key: str | None = None) -> QueuedStep | None:
        """
        Take the next step of a queue and return it: the step that was put back last, else the oldest; None if the queue
        is empty.

        Two processes that take a step at the same time get different steps.

        Raises:
            InvalidInputError: no such queue.
        """
        events = self._record(commands.TakeStep(require_queue(list_type)), None, idempotency_key, catch_up=True).events
        taken = next((event for event in events if isinstance(event, StepTaken)), None)
        if taken is None:
            return None
        if taken.step > self.version:
            # Another process took the step under this key, and this view has not read that event yet.
            self.refresh()
        (queued,) = self._journal.events(after=taken.step - 1, until=taken.step)
        assert isinstance(queued, StepQueued)
        return QueuedStep(queued.name, parse_json(queued.params), taken.step)

    def return_step(self, step: QueuedStep | int, *, idempotency_key: str | None = None) -> None:
        """
        Put back a step that `pop_todo` returned: it is the first of its queue again.

        Raises:
            NotFoundError: it was not taken, or was put back already.
            InvalidInputError: it is not a step.
        """
        version = step.version if isinstance(step, QueuedStep) else require_whole(step, "the step")
        self._record(commands.ReturnStep(version), None, idempotency_key, catch_up=True)

    def clear_steps(self, *list_types: str, idempotency_key: str | None = None) -> None:
        """
        Remove all steps from some queues, or from all three.

        Raises:
            InvalidInputError: no such queue.
        """
        command = commands.ClearSteps(tuple(map(require_queue, list_types or QUEUES)))
        self._record(command, None, idempotency_key, catch_up=False)

    def record_messages(self, *messages: Any, idempotency_key: str | None = None) -> None:
        """
        Record messages of the dialogue, of any format and including system messages: all of them or none.

        Raises:
            InvalidInputError: one of them is not a message, has calls that are not a list, or has a value that is not
                JSON.
        """
        records = tuple(
            canonical_json(message_to_dict(message), what=f"message {index}") for index, message in enumerate(messages)
        )
        if records:
            self._record(commands.RecordMessages(records), None, idempotency_key, catch_up=True)

    def close(self, reason: str | None = None, *, idempotency_key: str | None = None) -> None:
        """End the run: no nodes, edges, pointers or steps can be added. Present nodes can still be corrected."""
        self._record(commands.Close(reason), None, idempotency_key, catch_up=True)

    def steps(self, list_type: str = "todo") -> list[QueuedStep]:
        """
        Return the steps of a queue, `pre`, `todo` or `post`, in the order in which they will be taken.

        Raises:
            InvalidInputError: no such queue.
        """
        held = self._state.steps.all_in(require_queue(list_type))
        return [QueuedStep(one.event.name, parse_json(one.event.params), one.version) for one in held]

    def messages(self, *, clean: bool = False) -> list[Message]:
        """Return all recorded messages, or with `clean`, the messages cleaned so that they can be replayed."""
        held = (recorded_message(parse_json(one.event.record)) for one in self._state.messages.values())
        messages = [message for message in held if message is not None]
        return clean_messages(messages) if clean else messages

    def context_text(self) -> str:
        """Return the messages as a compact text."""
        return build_current_context(self.messages())

    # Descriptions of data by a model

    def portray_with(
        self,
        portrayer: Portrayer,
        *,
        model: str | None = None,
        limit: int = PORTRAITS_AT_ONCE,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:
        """
        Set the model that describes data nodes: an `LLM`, or a function, sync or async, from a prompt to a text.

        `model` is the name that is recorded; an adapter has a name already. The model is asked about `limit` nodes at
        once, and up to `attempts_max` times about each, with pauses; after that, the node is left to the next
        `profiling()`.

        Raises:
            InvalidInputError: it is neither an `LLM` nor a function, a name is not valid, or a number is below 1.
        """
        self._require_writer()
        for what, number in (("limit", limit), ("attempts_max", attempts_max)):
            if not isinstance(number, int) or number < 1:
                raise InvalidInputError(f"{what} is {number!r}: it is a whole number from 1 on")
        self._asking = asking_of(portrayer, model, attempts_max)
        self._semaphore.count = limit

    def profiling(self) -> int:
        """
        Start a task for each data node without a description, in which a model describes it; return the number of
        tasks that were started.

        A node that has a running task gets no second one. The tasks run in the running event loop, or else in a thread.
        If a task fails, the failure is recorded, the description stays empty, and the next call starts a new task. A
        description that somebody else writes in the meantime stays.

        Raises:
            InvalidInputError: no model was set, or a transaction is open, whose nodes are not recorded yet.
        """
        self._require_writer()
        asking = self._asking
        if asking is None:
            raise InvalidInputError("no model describes nodes here: set one by `run.portray_with(...)`")
        if current_transaction(self._journal.log) is not None:
            raise InvalidInputError(
                "profiling() within a transaction: call it after the block, when the nodes are recorded"
            )
        return self._portraits.start(_undescribed(self._graph), partial(self._portray, asking=asking))

    async def wait_portraits(self, timeout: float | None = None) -> list[str]:
        """
        Wait for the running tasks of models; return the names of the nodes whose tasks are not done after `timeout`
        seconds.

        Those tasks continue.
        """
        left = await self._portraits.wait(timeout)
        return await in_thread(lambda: [self._graph.name_of(ref) for ref in left])

    wait_pending_tasks = wait_portraits  # the seed's name

    def finish_portraits(self, timeout: float | None = None) -> list[str]:
        """
        `wait_portraits()` for code without an event loop.

        Raises:
            InvalidInputError: a task runs in this event loop, which would wait for itself.
        """
        return list(map(self._graph.name_of, self._portraits.wait_here(timeout)))

    async def _portray(self, ref: Ref, *, asking: DescriptionModel) -> None:
        actor = asking.model or NAMELESS
        # When the store is closed, the description cannot be recorded any more, and nobody waits for it.
        with suppress(StorageClosedError):
            async with self._semaphore.hold():
                with acting(actor=actor, because=f"{ref.stream or self.stream_id}@{ref.version}"):
                    request = await in_daemon_thread(self._request_portrait, ref, asking.model)
                if request is not None:
                    with acting(actor=actor, because=request):
                        await self._describe(ref, asking)

    def _request_portrait(self, ref: Ref, model: str | None) -> str | None:
        """Record that a model is asked; return the reference of that event, or None if no answer is needed."""
        before = self.version
        if not self._record(commands.RequestPortrait(ref, model), catch_up=True).events:
            return None
        since = enumerate(self._journal.events(after=before, until=self.version), before + 1)
        versions = [number for number, event in since if isinstance(event, PortraitRequested) and event.node == ref]
        return f"{self.stream_id}@{versions[-1]}"

    async def _describe(self, ref: Ref, asking: DescriptionModel) -> None:
        """Ask the model until there is an answer, or the node needs no description any more."""
        from ..erasure.foreign_erasures import erased_since, look

        for attempt in range(asking.attempts_max):
            await _pause(attempt)
            erasures = await in_daemon_thread(look, self._journal.log)
            question = await in_daemon_thread(self._question, ref)
            if question is None:
                return
            answer = await asking.answer(question)
            command: commands.WritePortrait | commands.FailPortrait
            if answer.failure is None:
                command = commands.WritePortrait(ref, answer.text, asking.model, erasures=erasures)
            else:
                command = commands.FailPortrait(ref, answer.failure, erasures)
            try:
                await self._record_answer(command)
            except DecisionRefusedError:
                if not await in_daemon_thread(erased_since, self._journal.log, erasures):
                    raise
                # The answer may repeat a text that was erased since, so the model is asked about the remaining texts.
                continue
            if answer.failure is None:
                return

    def _question(self, ref: Ref) -> str | None:
        graph = self._graph
        return portrait_question(graph, ref) if is_undescribed(graph, ref) else None

    async def _record_answer(self, command: commands.WritePortrait | commands.FailPortrait) -> None:
        """Record the answer of a model; if the log is busy, try again, because an answer costs money."""
        record = partial(self._record, command, catch_up=True)
        for attempt in range(RECORDINGS_MAX):
            await _pause(attempt)
            try:
                await in_daemon_thread(record)
                return
            except StorageClosedError:
                raise
            except (ConcurrencyError, StorageError):
                if attempt == RECORDINGS_MAX - 1:
                    raise

    # Nodes

    def node(self, name: str) -> BaseIR:
        """Return a node."""
        graph = self._graph
        return self._typed_node(graph.resolve(name))

    def get_IR_from_node(self, graph_node_label: str) -> BaseIR:
        """Return a node; `node` is the same."""
        return self.node(graph_node_label)

    def nodes(self, node_type: str | None = None) -> list[str]:
        """Return the names of all nodes of the graph, or of those of a type, in the order of registration."""
        return list(self._graph.names(node_type))

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self._graph.find(name) is not None
        except InvalidInputError:
            return False

    def versions(self, name: str) -> list[NodeVersion]:
        """
        Return the versions of a node, from 1: the events about it in all rounds that the run goes back over.

        The node may have been removed. The name of any vertex of a data node, like `Table(orders)#1`, means the whole
        node.

        Raises:
            DecisionRefusedError: an open transaction changed the node.
        """
        self.flush()
        graph = self._graph
        log, known = self._journal.log, {self.stream_id: self._journal.known.version}
        current = current_transaction(log)
        recorded = known if current is None else current.recorded | known
        return node_versions(graph, log, self.stream_id, self._ever_named(name), recorded)

    def history(self, name: str, attribute: str | None = None) -> list[AttributeVersion]:
        """
        Return every change of a node's attributes, or of one attribute: old and new value, actor, time and cause.

        Raises:
            NotFoundError: the node never had that attribute.
        """
        return attribute_versions(self.versions(name), attribute)

    def node_at(self, name: str, version: int) -> BaseIR:
        """
        Return a node as it was at one of its `versions`: a number from 1, or a negative one from the end.

        Raises:
            NodeNotFoundError: there is no such version, or it removed the node.
        """
        require_whole(version, "the version of a node", least=None)
        versions = self.versions(name)
        wanted = numbered_version(versions, name, version)
        until = versions[: wanted.version]
        vertex = present_vertex(until)
        # The first version of a vertex registered it, each later one changed it.
        changes = [one for one in until if one.vertex == vertex][1:]
        old_values = self._graph.old_values_of(vertex)[: len(changes)]
        return typed_node(self._graph, vertex, self.identity, wanted.attributes, old_values)

    def _ever_named(self, name: str) -> Ref:
        graph = self._graph
        found = graph.find(name) or next(iter(graph.ever_named(name)), None)
        return graph.resolve(name) if found is None else found

    # The graph

    def graph(self, trimmed: bool = False) -> Trajectory:
        """Return the graph: this round and those it goes back over; with `trimmed`, only the active branches."""
        state = self._state
        cached = self._trajectory_cache
        if cached is None or cached[0] is not state:
            cached = self._trajectory_cache = (state, trajectory_of(self._graph, self.identity))
        return cached[1].trimmed() if trimmed else cached[1]

    def get_trajectory(self, trimmed: bool = False) -> Any:
        """
        Return a copy of the graph as a networkx DiGraph.

        Raises:
            ImportError: networkx is not installed; the extra `refold[graph]` brings it.
        """
        return self.graph(trimmed).to_networkx()

    def get_active_branch(self) -> frozenset[str]:
        """Return the names of the pointers: the ends of the active branches."""
        graph = self._graph
        return frozenset(graph.name_of(ref) for ref in graph.state.pointers if graph.is_there(ref))

    @property
    def rounds(self) -> tuple[Segment, ...]:
        """The earlier rounds that the graph goes back over, oldest first, each up to a version of its stream."""
        return self._state.pins

    @property
    def initial(self) -> str | None:
        """The name of this round's query."""
        state = self._state
        return self._graph.name_of(Ref(state.query)) if state.query else None

    @property
    def session_root(self) -> str | None:
        """The name of the session's first query."""
        graph = self._graph
        return None if graph.root is None else graph.name_of(graph.root)

    def predecessors(self, name: str) -> list[str]:
        """Return the names of the nodes with an edge to a node."""
        graph = self._graph
        return self._names(edge.end for edge in graph.predecessors(graph.resolve(name)))

    def successors(self, name: str) -> list[str]:
        """Return the names of the nodes with an edge from a node."""
        graph = self._graph
        return self._names(edge.end for edge in graph.successors(graph.resolve(name)))

    def ancestors(self, name: str) -> list[str]:
        """Return the names of the nodes with a path to a node, in the order of registration."""
        graph = self._graph
        return self._names(self._in_order(graph.leading_to([graph.resolve(name)])))

    def descendants(self, name: str) -> list[str]:
        """Return the names of the nodes with a path from a node, in the order of registration."""
        graph = self._graph
        return self._names(self._in_order(graph.led_to([graph.resolve(name)])))

    def lineage(self, name: str) -> list[str]:
        """
        Return the names of all vertices of a data node over the rounds, and of all nodes with a path to them in their
        rounds.

        They are in the order of registration.

        Raises:
            InvalidInputError: it is not a data node.
        """
        graph = self._graph
        ref = _require_data(graph, graph.resolve(name))
        named = graph.vertices_named(graph.type_of(ref), graph.event(ref).label)
        vertices = [one for one in named if graph.is_there(one)]
        return self._names(self._in_order(graph.leading_to(vertices, over_bridges=False) | set(vertices)))

    def get_next_data_node(self, action_node_label: str) -> list[BaseIR]:
        """
        Return the data that an action led to, including the columns of tables.

        Raises:
            InvalidInputError: it is not an action.
        """
        graph = self._graph
        ref = graph.resolve(action_node_label)
        if graph.type_of(ref) != "Action":
            raise InvalidInputError(f"{action_node_label} is no Action: only actions are followed to their data")
        return self._beyond_tables(ref, graph.successors, DATA)

    def get_previous_action_node(self, data_node_label: str) -> list[BaseIR]:
        """
        Return the actions that led to data, directly or through the table of a column.

        Raises:
            InvalidInputError: it is not a data node.
        """
        graph = self._graph
        return self._beyond_tables(
            _require_data(graph, graph.resolve(data_node_label)), graph.predecessors, ("Action",)
        )

    def _beyond_tables(
        self, start: Ref, edges_of: Callable[[Ref], Iterable[Edge]], wanted: Container[str]
    ) -> list[BaseIR]:
        """Return the adjacent vertices that have one of the `wanted` types, and those adjacent to adjacent tables."""
        graph = self._graph
        found: dict[Ref, None] = {}
        waiting, seen = deque([start]), {start}
        while waiting:
            for edge in edges_of(waiting.popleft()):
                node_type = graph.type_of(edge.end)
                if node_type in wanted:
                    found[edge.end] = None
                if node_type == "Table" and edge.end not in seen:
                    seen.add(edge.end)
                    waiting.append(edge.end)
        return list(map(self._typed_node, found))

    def _typed_node(self, ref: Ref) -> BaseIR:
        graph = self._graph
        return typed_node(graph, ref, self.identity, graph.attributes_of(ref), graph.old_values_of(ref))

    def _names(self, refs: Iterable[Ref]) -> list[str]:
        return list(dict.fromkeys(map(self._graph.name_of, refs)))

    def _in_order(self, refs: set[Ref]) -> list[Ref]:
        return [ref for ref in self._graph.vertices() if ref in refs]

    # The past

    def at(self, moment: int | str | datetime | Moment) -> ReadOnlyRun:
        """
        Return the run as it was: at a version, a time, a position of the log, or a named version.

        Raises:
            NotFoundError: no such version or name.
            InvalidInputError: the text is none of these, or a time without a zone.
        """
        return self._view(ReadOnlyRun, self.version_at(moment))

    def diff(
        self, before: int | str | datetime | Moment | Run, after: int | str | datetime | Moment | Run | None = None
    ) -> TrajectoryDiff:
        """
        Return the difference of the graph between two moments, or between one moment and now.

        A run of the same store, or a view of a run, is compared as it is. If it belongs to another session, nodes with
        the same name count as the same node.

        Raises:
            NotFoundError, InvalidInputError: as for `at`.
        """
        given = (before, self if after is None else after)
        old, new = (one if isinstance(one, Run) else self.at(one) for one in given)
        return compared(old.graph(), new.graph(), by_name=old.identity[:2] != new.identity[:2])

    def adopted_events(self, stream: str, *, root: str) -> list[NewEvents]:
        """
        Return the events that a store must append to store this detached run as `stream`, in the slice of its session.

        The earlier rounds that it goes back over are included.

        Raises:
            InvalidInputError: `stream` is the stream of another run; the first event of a run has its identity.
        """
        self._require_writer()
        if stream != self.identity.stream:
            raise InvalidInputError(f"{self.id} can be adopted only under its own id: store.adopt(run, run.id)")
        self.flush()
        return adopted_events(self._writer.log, self.stream_id, stream, root=self.session_id, keep_names=True)

    def attach(self, log: Log, place: Place, durability: Durability, unflushed: set[Journal[Any]]) -> None:
        super().attach(log, place._replace(root=self.session_id, actor=self.agent), durability, unflushed)

    @property
    def readonly(self) -> ReadOnlyRun:
        """A live view of this run that cannot be changed."""
        return self._view(ReadOnlyRun)

    def _show(self, shown: Context[RunState], version: int | None = None) -> None:
        super()._show(shown, version)
        if version is not None:
            # The tasks that ask models belong to the live run, so a view of the past has none.
            self._portraits = PortraitTasks()


class ReadOnlyRun(Run):
    """A read-only run: as it was at a version, or a live view."""


def _require_data(graph: RunGraph, ref: Ref) -> Ref:
    if graph.type_of(ref) not in DATA:
        raise InvalidInputError(f"{graph.name_of(ref)} is no data node: only data come from actions")
    return ref


def _node_names(given: object, what: str) -> tuple[str, ...]:
    """Return a tuple of node names; a text is one name."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (None,)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(f"{what} is {given!r}: it is a list of names of nodes, like ['Query(query00000)']")
    return names


def _step(given: str | Mapping[str, Any]) -> commands.Step:
    definition = {"name": given} if isinstance(given, str) else given
    name = definition.get("name") if isinstance(definition, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"a step is a name, or a dict with one under 'name', not {given!r}")
    params = definition.get("params")
    stored = b"" if params is None else canonical_json(params, what=f"the parameters of the step {name!r}")
    return commands.Step(require_unicode(name, "the name of a step"), stored)


def _steps(given: Iterable[str | Mapping[str, Any]], what: str) -> tuple[commands.Step, ...]:
    # A text would be a step for each of its letters, and a dict one for each of its keys.
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        raise InvalidInputError(f"{what} is {given!r}: give a list of steps")
    return tuple(map(_step, given))


def _undescribed(graph: RunGraph) -> list[Ref]:
    """Return the data nodes without a description; of a node that was met again, only the newest vertex counts."""
    data = (ref for ref in graph.vertices() if graph.type_of(ref) in DATA)
    return [ref for ref in data if graph.is_newest(ref) and is_undescribed(graph, ref)]


async def _pause(attempt: int) -> None:
    """Wait before each attempt after the first, longer each time."""
    import asyncio

    if attempt:
        await asyncio.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
