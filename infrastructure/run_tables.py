"""Runs as the relational tables have them: nodes, edges, and the graph that they make (SPEC D13.9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..domain.errors import NotFoundError
from ..domain.trajectory import Trajectory
from ..domain.trajectory.nodes import own_fields
from ..projections.trajectory_keys import place_in, runs_prefix
from ..projections.trajectory_tables import NODES, RUN_TABLES, EdgeRow, NodeRow
from .projecting.runner import ProjectionRunner
from .restored_graph import restored_graph
from .row_faults import REBUILD, opening


class Selected(NamedTuple):
    """Runs of a session: of one round or of all, of one agent or of all."""

    user_id: str
    session_id: str
    run_id: int | None = None
    sub_id: int | None = None

    @property
    def prefix(self) -> str:
        """
        What the keys of their rows begin with.

        Raises:
            InvalidInputError: a part that cannot be one.
        """
        return runs_prefix(*self)

    def has(self, row: NodeRow | EdgeRow) -> bool:
        """Return whether a row with that prefix is of these runs."""
        return self.sub_id in (None, row.sub_id)


@opening("the tables of runs", remedy=REBUILD)
def run_nodes(runner: ProjectionRunner, runs: Selected, node_type: str | None) -> list[NodeRow]:
    """Return what `Store.run_nodes` does."""
    if node_type is not None:
        own_fields(node_type)
    tables = list(NODES.values()) if node_type is None else [NODES[node_type]]
    return [row for row in _nodes(runner.rows_under(tables, [runs.prefix]), runs) if not row.removed_by]


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
    return restored_graph(nodes, _edges(rows, runs))


def _nodes(rows: Iterable[Any], runs: Selected) -> list[NodeRow]:
    """Return the nodes among rows, removed ones too, round after round as they were registered."""
    nodes = (row for row in rows if isinstance(row, NodeRow) and runs.has(row))
    return sorted(nodes, key=lambda row: (row.run_id, row.sub_id, place_in(row.key)[1]))


def _edges(rows: Iterable[Any], runs: Selected) -> list[EdgeRow]:
    edges = (row for row in rows if isinstance(row, EdgeRow) and runs.has(row))
    return sorted(edges, key=lambda row: (row.run_id, row.sub_id, place_in(row.target), place_in(row.source)))
