"""The rules of a run: commands in, events out, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from ...canonical import require_unicode
from ...context.decider import Decider
from ...ids import require_name
from ...spans import Ref
from ..events import (
    MessageRecorded,
    PortraitDiscarded,
    PortraitFailed,
    PortraitRequested,
    PortraitWritten,
    RunClosed,
    RunEvent,
    RunNamed,
)
from ..nodes import DATA
from ..state.attributes import description_of
from ..state.fold import EMPTY, RestoredRounds, RunState, fold
from ..state.graph import RunGraph
from ..state.loading import complete, recorded_event
from .commands import (
    AddEdge,
    Begin,
    ClearSteps,
    Close,
    Command,
    FailPortrait,
    ImportNode,
    LoadSteps,
    ModifyNode,
    MovePointers,
    NameVersion,
    QueueStep,
    RecordMessages,
    RegisterNode,
    RegisterQuery,
    RemoveNode,
    RequestPortrait,
    RestoreRounds,
    ReturnStep,
    TakeStep,
    WritePortrait,
)
from .registering import imported, registered, registered_query, require_open
from .reshaping import edge_added, modified, pointers_moved, removed
from .stepping import cleared, loaded, queued, returned, taken


def is_undescribed(graph: RunGraph, ref: Ref) -> bool:
    """Return whether a vertex is data, in the graph, and without a description."""
    return graph.is_there(ref) and graph.type_of(ref) in DATA and not description_of(graph, ref)


def requested(command: RequestPortrait, graph: RunGraph) -> list[PortraitRequested]:
    """Return the event that a model is asked; none where nobody needs to."""
    if not is_undescribed(graph, command.node):
        return []
    return [PortraitRequested(node=command.node, model=command.model)]


def written(command: WritePortrait, graph: RunGraph) -> PortraitWritten | PortraitDiscarded:
    """
    Return the event that takes an answer, or the one that it came too late for.

    Raises:
        InvalidInputError: the answer is no Unicode text.
    """
    description = require_unicode(command.description, "the description")
    if is_undescribed(graph, command.node):
        return PortraitWritten(node=command.node, description=description, model=command.model, made_at=command.made_at)
    return PortraitDiscarded(node=command.node, description=description)


def failed(command: FailPortrait, _graph: RunGraph) -> PortraitFailed:
    """Return the event that a model gave no answer."""
    return PortraitFailed(node=command.node, error=command.error.encode(errors="replace").decode())


Decided = Sequence[RunEvent | RestoredRounds]


def decide(command: Command, state: RunState) -> Decided:
    """
    Return the events that carry out `command`; none where it is so already.

    Raises:
        RefusedError: it cannot be carried out; which kind of error, the rules of each command say.
    """
    match command:
        case Begin(event=event):
            return [] if state.opened else [event]
        case NameVersion(name=name, version=version):
            is_so = state.names.get(require_name(name)) == version
            return [] if is_so else [RunNamed(name=name, version=version)]
        case Close(reason=reason):
            given = None if reason is None else require_unicode(reason, "the reason")
            return [] if state.is_closed else [RunClosed(reason=given)]
        case RestoreRounds(event=event, past=past):
            return [] if state.pins == event.rounds else [RestoredRounds(event, past)]
        case RecordMessages(records=records):
            return [MessageRecorded(record=record) for record in records]
        case QueueStep() | LoadSteps() | TakeStep() | ReturnStep() | ClearSteps():
            return _decide_on_steps(command, state)
        case _:
            return _decide_on_graph(command, RunGraph(state))


def _decide_on_steps(command: QueueStep | LoadSteps | TakeStep | ReturnStep | ClearSteps, state: RunState) -> Decided:
    require_open(RunGraph(state))
    match command:
        case QueueStep():
            return [queued(command, state)]
        case LoadSteps():
            return loaded(command, state)
        case TakeStep():
            return taken(command, state)
        case ReturnStep():
            return [returned(command, state)]
        case ClearSteps():
            return cleared(command, state)


def _decide_on_graph(
    command: RegisterQuery
    | RegisterNode
    | ImportNode
    | ModifyNode
    | RemoveNode
    | AddEdge
    | MovePointers
    | RequestPortrait
    | WritePortrait
    | FailPortrait,
    graph: RunGraph,
) -> Decided:
    match command:
        case RegisterNode():
            return [registered(command, graph)]
        case RegisterQuery():
            return [registered_query(command, graph)]
        case ImportNode():
            return [imported(command, graph)]
        case ModifyNode():
            return modified(command, graph)
        case RemoveNode():
            return [removed(command, graph)]
        case AddEdge():
            return edge_added(command, graph)
        case MovePointers():
            return pointers_moved(command, graph)
        case RequestPortrait():
            return requested(command, graph)
        case WritePortrait():
            return [written(command, graph)]
        case FailPortrait():
            return [failed(command, graph)]


RUNS: Decider[RunState] = Decider(decide, fold, EMPTY, complete, recorded_event)
