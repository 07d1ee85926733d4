"""From a run's state to what is shown of a node."""

from __future__ import annotations

from typing import Any

from ..frozen import FrozenDict, freeze
from ..spans import Ref
from .identity import RunId
from .nodes import NODE_TYPES, BaseIR, own_fields
from .state.attributes import DESCRIPTION, attributes_of, old_values
from .state.graph import RunGraph


def shown_node(graph: RunGraph, ref: Ref, identity: RunId) -> BaseIR:
    """Return a vertex as a typed node; `identity` is that of the run that is looked at."""
    values = attributes_of(graph, ref)
    return made_node(graph, ref, identity, values, freeze(old_values(graph, ref)))


def made_node(
    graph: RunGraph, ref: Ref, identity: RunId, values: dict[str, Any], history: FrozenDict[int, Any]
) -> BaseIR:
    """Return a typed node of a vertex that has these attributes."""
    event, node_type = graph.event(ref), graph.type_of(ref)
    required = own_fields(node_type)
    return NODE_TYPES[node_type](
        label=event.label,
        description=values[DESCRIPTION],
        session_id=identity.session_id,
        run_id=_round_of(graph, ref, identity)[0],
        created_at=event.created_at,
        history=history,
        extra=freeze({name: value for name, value in values.items() if name not in (*required, DESCRIPTION)}),
        **{name: freeze(values.get(name)) for name in required},
    )


def _round_of(graph: RunGraph, ref: Ref, identity: RunId) -> tuple[int, int]:
    """Return the round and the sub-agent that registered a vertex."""
    opened = None if not ref.stream else graph.round_of(ref).opened
    return (identity.run_id, identity.sub_id) if opened is None else (opened.round, opened.sub)
