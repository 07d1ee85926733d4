"""
Places for the nodes of a graph: the column is the depth, the row a lane; each agent of each round has lanes of its own.

A node takes the lane of the node that it goes on from, if that is free, so that a straight run is a straight line. It
takes time proportional to the nodes and edges, and no place depends on nodes that are registered later.
"""

from __future__ import annotations

from typing import NamedTuple

from ...domain.trajectory.trajectory import Trajectory

# Beyond this many lanes that end early a new lane costs less than looking for a free one.
LOOKED_AT = 16


class Place(NamedTuple):
    """The place of a node, counted from 0; `band` numbers the rounds and agents."""

    column: int
    row: int
    band: int


class _Band:
    """The lanes of one agent in one round: for each the last column that is taken."""

    def __init__(self) -> None:
        self.ends: list[int] = []

    def lane(self, wanted: int | None, column: int) -> int:
        """Return a lane that is free from a column on, the wanted one if it is."""
        lanes = [] if wanted is None else [wanted]
        lanes += range(max(0, len(self.ends) - LOOKED_AT), len(self.ends))
        free = next((lane for lane in lanes if self.ends[lane] < column), len(self.ends))
        if free == len(self.ends):
            self.ends.append(column)
        self.ends[free] = column
        return free


def laid_out(graph: Trajectory) -> dict[str, Place]:
    """Return the place of each node by its name."""
    sources: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for edge in graph.edges:
        if not edge.leads_back and edge.target in sources and edge.source in sources:
            sources[edge.target].append(edge.source)
    columns: dict[str, int] = {}
    lanes: dict[str, int] = {}
    keys: dict[tuple[int, int], int] = {}
    bands: list[_Band] = []
    band_of: dict[str, int] = {}
    for name, node in graph.nodes.items():
        # Nodes come in the order of registration, so all that lead to one have a place already.
        before = [one for one in sources[name] if one in columns]
        column = max((columns[one] + 1 for one in before), default=0)
        band = keys.setdefault((node.run_id, node.sub_id), len(keys))
        if band == len(bands):
            bands.append(_Band())
        own = next((one for one in before if band_of[one] == band and columns[one] == column - 1), None)
        columns[name], band_of[name] = column, band
        lanes[name] = bands[band].lane(lanes[own] if own is not None else None, column)
    tops, top = [], 0
    for one in bands:
        tops.append(top)
        top += len(one.ends)
    return {name: Place(columns[name], tops[band_of[name]] + lanes[name], band_of[name]) for name in graph.nodes}
