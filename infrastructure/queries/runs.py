"""
Tables of runs: their nodes and edges as rows, and a graph that is restored from these rows.

For a graph, the rows of each round are turned into events that have the same result, and these are folded. The rest is
as for any run: names, bridges and root follow from the rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from ...domain.canonical import require_unicode
from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.named_events import Resolved
from ...domain.spans import Ref, Segment
from ...domain.trajectory.events import (
    QUERY,
    EdgeAdded,
    NodeRegistered,
    NodeRemoved,
    PointersMoved,
    QueryRegistered,
    RoundsRestored,
    RunOpened,
)
from ...domain.trajectory.graph import RunGraph, trajectory_of
from ...domain.trajectory.identity import RunId
from ...domain.trajectory.nodes import own_fields
from ...domain.trajectory.state import EMPTY, Completed, PastRound, fold, leaves_of
from ...domain.trajectory.trajectory import Trajectory
from ...projections.rows import place_in, runs_prefix, stream_in
from ...projections.trajectory_tables import NODES, RUN_TABLES, EdgeRow, NodeRow
from ..log.row_faults import REBUILD, opening
from ..projecting.runner import ProjectionRunner

Raw = msgspec.Raw
# Fills the versions that registered no node.
NOTHING = PointersMoved()


class _Round(NamedTuple):
    """The rows of a round: its nodes, the edges between them, and the nodes that it removed, also of earlier rounds."""

    stream: str
    nodes: list[NodeRow]
    edges: list[EdgeRow]
    removed: list[NodeRow]


def _rounds(nodes: Sequence[NodeRow], edges: Iterable[EdgeRow]) -> list[_Round]:
    rounds: dict[str, _Round] = {}
    for row in nodes:
        stream = stream_in(row.key)
        if stream not in rounds:
            rounds[stream] = _Round(stream, [], [], [])
        rounds[stream].nodes.append(row)
    for edge in edges:
        rounds[stream_in(edge.target)].edges.append(edge)
    *_, last = rounds.values()
    for row in nodes:
        if row.removed_by:
            # The run that removed it may not be selected; then the last round removes it here.
            rounds.get(stream_in(row.removed_by), last).removed.append(row)
    return list(rounds.values())


def _past_round(of: _Round) -> PastRound:
    state = fold(EMPTY, _events(of))
    return PastRound(of.stream, state, leaves_of(state))


def _events(of: _Round, restored: Resolved[PastRound] | None = None, pointers: tuple[Ref, ...] = ()) -> list[Completed]:
    """Return events that register each vertex at its version, then events for edges, removals and pointers."""
    user, session, number, sub = _identity(of)
    events: list[Completed] = [NOTHING] * place_in(of.nodes[-1].key)[1]
    events[0] = RunOpened(user=user, session=session, round=number, sub=sub)
    for row in of.nodes:
        events[place_in(row.key)[1] - 1] = _event(row)
    if restored is not None:
        events.append(restored)
    for edge in of.edges:
        ends = _ref_within(edge.source, of.stream), _ref_within(edge.target, of.stream)
        events.append(EdgeAdded(source=ends[0], target=ends[1], edge=edge.relationship))
    events += (NodeRemoved(node=_ref_within(row.key, of.stream)) for row in of.removed)
    # A query becomes a pointer when it is registered, so it is removed from the pointers here.
    queries = tuple(_ref_within(row.key, of.stream) for row in of.nodes if row.node_type == QUERY)
    return [*events, PointersMoved(left=queries, joined=pointers)]


def _event(row: NodeRow) -> QueryRegistered | NodeRegistered:
    """Return an event that registers a vertex with its present values."""
    fields = msgspec.json.decode(row.extra, type=dict[str, Raw])
    fields |= {name: Raw(text.encode()) for name in own_fields(row.node_type) if (text := getattr(row, name))}
    stored = msgspec.json.encode(fields, order="sorted")
    label, description, created_at = row.label, row.description, row.created_at
    if row.node_type == QUERY:
        return QueryRegistered(label=label, description=description, fields=stored, created_at=created_at)
    return NodeRegistered(
        type=row.node_type, label=label, description=description, fields=stored, created_at=created_at
    )


def _identity(of: _Round) -> RunId:
    row = of.nodes[0]
    return RunId(row.user_id, row.session_id, row.run_id, row.sub_id)


def _ref_within(key: str, stream: str) -> Ref:
    """Return the reference of a vertex as a round writes it: without a stream if the vertex is the round's own."""
    ref = Ref.parse(key)
    return Ref(ref.version) if ref.stream == stream else ref


def _pointed_in(row: NodeRow) -> list[str]:
    return msgspec.json.decode(row.pointer_of, type=list[str])


class Selected(NamedTuple):
    """Runs of a session: of one round or of all, of one agent or of all."""

    user_id: str
    session_id: str
    run_id: int | None = None
    sub_id: int | None = None

    @property
    def prefix(self) -> str:
        """
        The prefix of the keys of their rows.

        Raises:
            InvalidInputError: a part cannot be one, such as a user or session id that is not allowed.
        """
        return runs_prefix(*self)

    def has(self, row: NodeRow | EdgeRow) -> bool:
        """Return whether a row with this prefix belongs to these runs."""
        return self.sub_id in (None, row.sub_id)


@opening("the tables of runs", remedy=REBUILD)
def run_nodes(runner: ProjectionRunner, runs: Selected, node_type: str | None) -> list[NodeRow]:
    """Return what `Store.run_nodes` does."""
    if node_type is not None:
        own_fields(node_type)
    tables = list(NODES.values()) if node_type is None else [NODES[node_type]]
    return [row for row in _nodes(runner.rows_under(tables, [runs.prefix]), runs) if not row.removed_by]


class NodeFilter(NamedTuple):
    """A filter of nodes; None means any."""

    type: str | None = None
    label: str | None = None
    user: str | None = None
    session: str | None = None


class NodePage(NamedTuple):
    """Some nodes, and the cursor for the next page; None if there are no more."""

    nodes: list[NodeRow]
    cursor: str | None


@opening("the tables of runs", remedy=REBUILD)
def node_page(runner: ProjectionRunner, chosen: NodeFilter, *, limit: int, cursor: str | None) -> NodePage:
    """
    Return nodes of all runs that match a filter, type by type and run by run, after a cursor; removed ones, too.

    Raises:
        InvalidInputError: there is no such type, or the cursor is not that of a page.
    """
    if chosen.type is not None:
        own_fields(chosen.type)
    begun, _, after = require_unicode(cursor or "", "the cursor").partition(" ")
    if begun and begun not in NODES:
        raise InvalidInputError(f"{cursor!r} is no cursor of a page of nodes: leave it out to begin anew")
    wanted = {"label": chosen.label, "user_id": chosen.user, "session_id": chosen.session}
    where = {name: require_unicode(value, name) for name, value in wanted.items() if value is not None}
    types = [chosen.type] if chosen.type is not None else list(NODES)
    found: list[NodeRow] = []
    for node_type in types[types.index(begun) if begun in types else 0 :]:
        first = after if node_type == begun else ""
        found += runner.page(NODES[node_type], after=first, limit=limit + 1 - len(found), where=where)
        if len(found) > limit:
            last = found[limit - 1]
            return NodePage(found[:limit], f"{last.node_type} {last.key}")
    return NodePage(found, None)


@opening("the tables of runs", remedy=REBUILD)
def run_edges(runner: ProjectionRunner, runs: Selected) -> list[EdgeRow]:
    """Return what `Store.run_edges` does."""
    rows = runner.rows_under(RUN_TABLES, [runs.prefix])
    there = {row.key for row in _nodes(rows, runs) if not row.removed_by}
    return [row for row in _edges(rows, runs) if row.source in there and row.target in there]


@opening("the tables of runs", remedy=REBUILD)
def run_graph(runner: ProjectionRunner, runs: Selected) -> Trajectory:
    """Return what `Store.run_graph` does."""
    rows = runner.rows_under(RUN_TABLES, [runs.prefix])
    nodes = _nodes(rows, runs)
    if not nodes:
        raise NotFoundError(f"no node was registered in {runs.prefix}: `refold contexts` lists the runs")
    *earlier, last = _rounds(nodes, _edges(rows, runs))
    past = tuple(_past_round(one) for one in earlier)
    pins = tuple(Segment(one.stream, one.state.version) for one in past)
    pointers = tuple(_ref_within(row.key, last.stream) for row in nodes if last.stream in _pointed_in(row))
    events = _events(last, Resolved(RoundsRestored(rounds=pins), past), pointers)
    return trajectory_of(RunGraph(fold(EMPTY, events)), _identity(last))


def _nodes(rows: Iterable[Any], runs: Selected) -> list[NodeRow]:
    """Return the nodes among rows, including removed ones, by round and in the order of registration."""
    nodes = (row for row in rows if isinstance(row, NodeRow) and runs.has(row))
    return sorted(nodes, key=lambda row: (row.run_id, row.sub_id, row.key))


def _edges(rows: Iterable[Any], runs: Selected) -> list[EdgeRow]:
    edges = (row for row in rows if isinstance(row, EdgeRow) and runs.has(row))
    return sorted(edges, key=lambda row: (row.run_id, row.sub_id, row.target, place_in(row.source)))
