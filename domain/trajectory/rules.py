"""The rules of a run: commands in, events out, no side effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..arguments import require_optional
from ..canonical import canonical_json, require_json, require_unicode
from ..context.decider import Decider, NameVersion, decide_name
from ..errors import DecisionRefusedError, InvalidInputError, NotFoundError
from ..named_events import Resolved
from ..spans import Ref
from . import commands
from . import events as run
from .graph import RunGraph
from .nodes import (
    COMPUTATION,
    DATA,
    DESCRIPTION,
    NodeNotFoundError,
    RunStateError,
    UnknownAttributeError,
    node_name,
    own_fields,
    require_fields,
)
from .packed import PACKING
from .state import EMPTY, Completed, RunState, complete, fold

# Commands that a closed run refuses; present nodes can still be changed, described and removed.
NEEDS_OPEN = frozenset(
    (
        commands.RegisterQuery,
        commands.RegisterNode,
        commands.ImportNode,
        commands.AddEdge,
        commands.MovePointers,
        commands.QueueStep,
        commands.LoadSteps,
        commands.TakeStep,
        commands.ReturnStep,
        commands.ClearSteps,
    )
)
# The usual type of an edge, by the types of its ends.
TRIGGERS, CONCLUDES, OUTPUTS = "triggers", "has_conclusion", "outputs"
TRIGGERING = ({"Query"}, {"State"})
CONCLUDING = tuple({name} for name in COMPUTATION)
OUTPUTTING = ({"Action"},)
# Every node has these attributes besides its fields, so no field may have such a name.
RESERVED = ("label", "description", "session_id", "run_id", "created_at", "history", "extra", "node_type")

Decided = Sequence[Completed]


def decide(command: commands.Command, state: RunState) -> Decided:
    """
    Return the events that carry out `command`; no events where nothing would change.

    Raises:
        RefusedError: it cannot be carried out; the methods of `Run` list the errors.
    """
    if state.is_closed and type(command) in NEEDS_OPEN:
        raise RunStateError("the run is closed: open another round, or change nodes that are there")
    match command:
        case commands.Begin(event=event):
            return [] if state.opened else [event]
        case NameVersion():
            return decide_name(command, state.names, run.RunNamed)
        case commands.Close(reason=reason):
            given = require_optional(reason, "the reason")
            return [] if state.is_closed else [run.RunClosed(reason=given)]
        case commands.RestoreRounds(event=event, past=past):
            return [] if state.pins == event.rounds else [Resolved(event, past)]
        case commands.RecordMessages(records=records):
            return [run.MessageRecorded(record=record) for record in records]
        case commands.QueueStep(queue=queue, step=step, capacity=capacity):
            return [_queue_step(require_queue(queue), step, capacity, state.steps.count(queue))]
        case commands.LoadSteps():
            return _load_steps(command)
        case commands.TakeStep(queue=queue):
            first = state.steps.first(require_queue(queue))
            return [] if first is None else [run.StepTaken(queue=queue, step=first.version)]
        case commands.ReturnStep(step=version):
            return [_return_step(version, state)]
        case commands.ClearSteps():
            queues = tuple(queue for queue in map(require_queue, command.queues) if state.steps.count(queue))
            return [run.StepsCleared(queues=queues)] if queues else []
        case _:
            return _decide_on_graph(command, RunGraph(state))


def _decide_on_graph(command: commands.GraphCommand, graph: RunGraph) -> Decided:
    match command:
        case commands.RegisterNode():
            return [_register_node(command, graph)]
        case commands.RegisterQuery():
            return [_register_query(command, graph)]
        case commands.ImportNode():
            return [_import_node(command, graph)]
        case commands.ModifyNode():
            return _modify_node(command, graph)
        case commands.RemoveNode():
            return [_remove_node(command, graph)]
        case commands.AddEdge():
            return _add_edge(command, graph)
        case commands.MovePointers():
            return _move_pointers(command, graph)
        case commands.RequestPortrait(node=node, model=model):
            return [run.PortraitRequested(node=node, model=model)] if is_undescribed(graph, node) else []
        case commands.WritePortrait():
            return [_write_portrait(command, graph)]
        case commands.FailPortrait(node=node, error=error):
            return [run.PortraitFailed(node=node, error=error.encode(errors="replace").decode())]


RUNS: Decider[RunState] = Decider(decide, fold, EMPTY, complete, PACKING)


# New nodes


def _register_query(command: commands.RegisterQuery, graph: RunGraph) -> run.QueryRegistered:
    _require_no_query(graph)
    description = command.description
    if description is None:
        description = f"User query No.{_count(graph, run.QUERY):05}"
    return run.QueryRegistered(
        **_node_fields(run.QUERY, command.label, description, command.fields, graph), created_at=command.created_at
    )


def _register_node(command: commands.RegisterNode, graph: RunGraph) -> run.NodeRegistered:
    """
    Register a node, completely or not at all: the event has its edges and the changes of pointers.

    A data node whose label is taken is met again: the new vertex keeps the attributes of the last one, except those
    that are given.
    """
    if not graph.state.query:
        raise RunStateError("Cannot register other node before registering query node.")
    if command.type == run.QUERY:
        raise InvalidInputError("A query is registered by register_query.")
    own_fields(command.type)
    sources = _sources(command.predecessors, graph)
    edge = edge_type(command.edge, (graph.type_of(source) for source in sources), command.type)
    description, fields = command.description, command.fields
    known = None
    if command.label is not None and command.type in DATA:
        known = graph.find(node_name(command.type, command.label))
    if known is not None:
        before = graph.attributes_of(known)
        described_before = before.pop(DESCRIPTION)
        description = description or described_before
        fields = {**before, **fields}
    require_fields(command.type, fields)
    left, is_pointer = _moved_pointers(command, sources, graph)
    return run.NodeRegistered(
        type=command.type,
        **_node_fields(command.type, command.label, description, fields, graph),
        created_at=command.created_at,
        sources=tuple(sources),
        edge=edge,
        left=left,
        is_pointer=is_pointer,
    )


def _import_node(command: commands.ImportNode, graph: RunGraph) -> run.QueryRegistered | run.NodeRegistered:
    """Register a node as it was in another store. It changes no pointers, and no attribute is filled in."""
    shared = _node_fields(command.type, command.label, command.description, command.fields, graph)
    if command.type == run.QUERY:
        _require_no_query(graph)
        return run.QueryRegistered(**shared, created_at=command.created_at)
    return run.NodeRegistered(
        type=command.type, **shared, created_at=command.created_at, sources=command.sources, edge=command.edge
    )


def _node_fields(
    node_type: str, label: str | None, description: str, fields: Mapping[str, Any], graph: RunGraph
) -> dict[str, Any]:
    """Return label, description and fields of a new node, checked, in the form that an event has."""
    label = _free_label(label, node_type, graph)
    return {
        "label": label,
        "description": require_unicode(description, "the description"),
        "fields": stored_fields(fields, node_name(node_type, label)),
    }


def stored_fields(fields: Mapping[str, Any], what: str) -> bytes:
    """
    Return the fields of a node in the form that an event has; `what` names the node in errors.

    Raises:
        InvalidInputError: a name is that of an attribute of every node, or a value is not JSON.
    """
    for name, value in fields.items():
        if name in RESERVED:
            raise InvalidInputError(f"{what} cannot have a field {name!r}: every node has an attribute of this name")
        require_json(value, what=f"the field {name!r} of {what}")
    return canonical_json(dict(fields), what=f"the fields of {what}")


def edge_type(given: str | None, sources: Iterable[str], target: str) -> str:
    """
    Return the type of the edges from nodes of some types to one of the type `target`: the given type, or the usual one.

    Questions or conclusions trigger an action; questions, actions or conclusions have a conclusion; actions output
    data.

    Raises:
        InvalidInputError: no type was given, and there is no usual one.
    """
    if given is not None:
        return require_unicode(given, "the edge type")
    types = set(sources)
    if target == "Action" and types in TRIGGERING:
        return TRIGGERS
    if target == "State" and types in CONCLUDING:
        return CONCLUDES
    if target in DATA and types in OUTPUTTING:
        return OUTPUTS
    raise InvalidInputError("No default edge type detected. Please provide an edge type.")


def _require_no_query(graph: RunGraph) -> None:
    if graph.state.query:
        raise RunStateError("Agent cannot have more than one query in one run!")


def _sources(names: Sequence[str], graph: RunGraph) -> list[Ref]:
    if not names:
        raise InvalidInputError("At least one predecessor node is required.")
    sources: dict[Ref, None] = {}
    for name in names:
        found = graph.find(name)
        if found is None:
            raise NodeNotFoundError(f"Cannot find predecessor node {name} on the graph.")
        sources[found] = None
    return list(sources)


def _free_label(given: str | None, node_type: str, graph: RunGraph) -> str:
    """Return the given label if it is free for a node of this run, or the next number."""
    if given is not None:
        if not isinstance(given, str) or not given:
            raise InvalidInputError(f"a label is a text of at least one character, not {given!r}")
        taken = graph.state.newest_of(node_name(node_type, given))
        if node_type in COMPUTATION and taken and graph.is_there(Ref(taken)):
            raise InvalidInputError("Multiple nodes with same label detected.")
        return require_unicode(given, "the label")
    number = _count(graph, node_type)
    # A label that a caller chose may have the same form.
    while graph.vertices_named(node_type, f"{node_type.lower()}{number:05}"):
        number += 1
    return f"{node_type.lower()}{number:05}"


def _count(graph: RunGraph, node_type: str) -> int:
    """Return how many nodes of a type there ever were, in all rounds, so that no number is used twice."""
    return sum(state.counts.get(node_type, 0) for _, state in graph.rounds)


def _moved_pointers(
    command: commands.RegisterNode, sources: Sequence[Ref], graph: RunGraph
) -> tuple[tuple[Ref, ...], bool]:
    """Return the nodes that are no longer pointers, and whether the new node is one."""
    if command.type in DATA:
        return (), False
    if command.add_pointer:
        return (), True
    left = tuple(source for source in sources if source in graph.state.pointers)
    return left, not command.remove_pointers


# Changes of nodes, edges and pointers


def _modify_node(command: commands.ModifyNode, graph: RunGraph) -> list[run.NodeChanged]:
    ref = graph.resolve(command.name)
    before = graph.attributes_of(ref)
    changes: list[run.AttributeChange] = []
    for name, value in command.changes.items():
        if name not in before:
            raise UnknownAttributeError(
                f"{command.name} has no attribute {name!r} that can be changed: it has {', '.join(before)}; others are "
                "given when a node is registered"
            )
        if name == DESCRIPTION:
            require_unicode(value, "the description")
        new = canonical_json(value, what=f"the attribute {name!r} of {command.name}")
        changes.append(run.AttributeChange(name, canonical_json(before[name], what=name), new))
    return [run.NodeChanged(node=ref, changes=tuple(changes), made_at=command.made_at)] if changes else []


def _remove_node(command: commands.RemoveNode, graph: RunGraph) -> run.NodeRemoved:
    """Remove a node; if it is a pointer, its predecessors become pointers."""
    reason = require_optional(command.reason, "the reason")
    ref = graph.resolve(command.name)
    joined = [edge.end for edge in graph.predecessors(ref)] if ref in graph.state.pointers else []
    return run.NodeRemoved(node=ref, joined=_new_pointers(joined, graph), reason=reason)


def _add_edge(command: commands.AddEdge, graph: RunGraph) -> list[run.EdgeAdded]:
    source, target = graph.resolve(command.source), graph.resolve(command.target)
    if target.stream:
        # The earlier round may continue, and add the opposite edge without reading this one.
        raise DecisionRefusedError(
            f"{command.target} is of an earlier round, to which no edge can be added: register the node again, "
            "and add the edge to its new version"
        )
    edge = edge_type(command.edge, [graph.type_of(source)], graph.type_of(target))
    if any((known.end, known.type) == (source, edge) for known in graph.predecessors(target)):
        return []
    if graph.closes_cycle(source, target):
        raise DecisionRefusedError(
            f"an edge from {command.source} to {command.target} would close a cycle: register the node again, "
            "and add the edge to its new version"
        )
    return [run.EdgeAdded(source=source, target=target, edge=edge)]


def _move_pointers(command: commands.MovePointers, graph: RunGraph) -> list[run.PointersMoved]:
    joined = _new_pointers(map(graph.resolve, command.joined), graph)
    left = tuple(ref for ref in map(graph.resolve, command.left) if ref in graph.state.pointers)
    return [run.PointersMoved(left=left, joined=joined)] if left or joined else []


def _new_pointers(refs: Iterable[Ref], graph: RunGraph) -> tuple[Ref, ...]:
    return tuple(dict.fromkeys(ref for ref in refs if ref not in graph.state.pointers))


# Descriptions by a model


def is_undescribed(graph: RunGraph, ref: Ref) -> bool:
    """Return whether a vertex is data, in the graph, and without a description."""
    return graph.is_there(ref) and graph.type_of(ref) in DATA and not graph.description_of(ref)


def _write_portrait(command: commands.WritePortrait, graph: RunGraph) -> run.PortraitWritten | run.PortraitDiscarded:
    """Record the answer of a model, or discard it if it came too late."""
    description = require_unicode(command.description, "the description")
    if is_undescribed(graph, command.node):
        return run.PortraitWritten(
            node=command.node, description=description, model=command.model, made_at=command.made_at
        )
    return run.PortraitDiscarded(node=command.node, description=description)


# Steps


def require_queue(queue: str) -> str:
    """
    Return the name of a queue.

    Raises:
        InvalidInputError: there is no queue of that name.
    """
    if queue not in run.QUEUES:
        raise InvalidInputError(f"TodoListManager: Invalid list type: {queue} (there are {', '.join(run.QUEUES)})")
    return queue


def _queue_step(queue: str, step: commands.Step, capacity: int, count: int) -> run.StepQueued | run.StepRefused:
    if count < capacity:
        return run.StepQueued(queue=queue, name=step.name, params=step.params)
    return run.StepRefused(queue=queue, name=step.name, params=step.params, capacity=capacity)


def _load_steps(command: commands.LoadSteps) -> list[run.StepsCleared | run.StepQueued | run.StepRefused]:
    """Clear queues and fill them; each step beyond the capacity is refused, with one event for each."""
    made: list[run.StepsCleared | run.StepQueued | run.StepRefused] = [
        run.StepsCleared(queues=tuple(require_queue(queue) for queue in command.queues))
    ]
    for queue, steps in command.queues.items():
        made += [_queue_step(queue, step, command.capacity, count) for count, step in enumerate(steps)]
    return made


def _return_step(version: int, state: RunState) -> run.StepReturned:
    step = state.steps.taken.get(version)
    if step is None:
        raise NotFoundError(f"no step of version {version} is taken: it never was, or it was put back already")
    return run.StepReturned(queue=step.event.queue, step=version)
