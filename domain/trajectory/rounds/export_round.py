"""From a run to its round as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ...canonical import parse_json
from ...errors import DecisionRefusedError
from ...log.envelope import RecordedEvent
from ...spans import Ref
from ..events import PortraitWritten
from ..history import made_at
from ..run import Run
from ..state.attributes import attributes_of, old_values
from ..state.graph import RunGraph
from .record import RoundChange, RoundEdge, RoundNode, RoundRecord, names_in_round


def told_round(run: Run) -> RoundRecord:
    """
    Return the round of a run, or of a view of its past, without what lies in other rounds (SPEC D13.2).

    Raises:
        DecisionRefusedError: a part of it is not recorded yet, since a transaction is open.
    """
    state = run._state
    recorded = run.recorded_events(until=state.version)
    if len(recorded) < state.version:
        raise DecisionRefusedError(f"{run.stream} is being changed by a transaction: tell of it when that has ended")
    # Alone, so that edges to other rounds lead nowhere.
    graph = RunGraph(msgspec.structs.replace(state, past=()))
    refs = list(graph.vertices())
    names = dict(zip(refs, names_in_round((graph.type_of(ref), graph.event(ref).label) for ref in refs), strict=True))
    return RoundRecord(
        run_id=run.run_id,
        sub_id=run.sub_id,
        nodes=tuple(_node(graph, ref, name, recorded) for ref, name in names.items()),
        edges=tuple(dict.fromkeys(edge for ref in refs for edge in _edges(graph, ref, names))),
        pointers=frozenset(names[ref] for ref in state.pointers if ref in names),
        messages=tuple(parse_json(event.record) for event in state.messages.values()),
        user_id=run.user_id,
        session_id=run.session_id,
        agent=run.agent,
        version=state.version,
    )


def _node(graph: RunGraph, ref: Ref, name: str, recorded: Sequence[RecordedEvent]) -> RoundNode:
    event = graph.event(ref)
    changes = zip(graph.changes_of(ref), old_values(graph, ref).values(), strict=True)
    return RoundNode(
        name=name,
        type=graph.type_of(ref),
        label=event.label,
        attributes=attributes_of(graph, ref),
        created_at=event.created_at,
        actor=recorded[ref.version - 1].meta.actor,
        changes=tuple(_change(recorded[change.version - 1], old) for (_, change), old in changes),
    )


def _change(recorded: RecordedEvent, old: dict[str, object]) -> RoundChange:
    event = recorded.event
    is_portrait = isinstance(event, PortraitWritten)
    return RoundChange(
        old=old,
        actor=recorded.meta.actor,
        at=made_at(recorded),
        is_portrait=is_portrait,
        model=event.model if is_portrait else None,
    )


def _edges(graph: RunGraph, ref: Ref, names: Mapping[Ref, str]) -> list[RoundEdge]:
    return [RoundEdge(names[edge.end], names[ref], edge.type) for edge in graph.predecessors(ref)]
