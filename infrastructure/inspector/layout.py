"""
Places for the nodes of a graph: the column is the depth, the row a lane; each agent of each round has lanes of its own.

A node takes the lane of the node that it goes on from, so that a straight run is a straight line; if that is taken, the
nearest free one, sooner above than below. So a branch that ended makes room, and a graph grows to the right and
hardly down. It takes time proportional to the nodes and edges, and no place depends on nodes that are registered later.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from ...domain.trajectory.trajectory import Trajectory

# A lane below costs as much as so many above: that keeps a graph low.
UPWARDS = 4
# Beyond so many lanes above a new lane costs less than looking for a free one.
LOOKED_AT = 512


class Place(NamedTuple):
    """The place of a node, counted from 0; `band` numbers the rounds and agents."""

    column: int
    row: int
    band: int


class _AgentLanes:
    """The lanes of one agent in one round: for each the last column that is taken."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        # The distance at which the last search from a lane and a column ended; the next one begins there.
        self._reached: dict[tuple[int, int], int] = {}

    def lane(self, wanted: int, column: int) -> int:
        """Return the lane nearest to the wanted one that is free from a column on."""
        ends, beginning = self.ends, self._reached.get((wanted, column), 0)
        found = len(ends)
        for distance in count(beginning):
            self._reached[wanted, column] = distance
            if distance > LOOKED_AT:
                break
            above, (below, rest) = wanted - distance, divmod(distance, UPWARDS)
            if 0 <= above < len(ends) and ends[above] < column:
                found = above
                break
            if not rest and (wanted + below >= len(ends) or ends[wanted + below] < column):
                found = min(wanted + below, len(ends))
                break
        if found == len(ends):
            ends.append(column)
        ends[found] = column
        return found


def laid_out(graph: Trajectory) -> dict[str, Place]:
    """Return the place of each node by its name."""
    sources: dict[str, list[str]] = {name: [] for name in graph.nodes}
    for edge in graph.edges:
        if not edge.leads_back and edge.target in sources and edge.source in sources:
            sources[edge.target].append(edge.source)
    columns: dict[str, int] = {}
    lanes: dict[str, int] = {}
    keys: dict[tuple[int, int], int] = {}
    bands: list[_AgentLanes] = []
    band_of: dict[str, int] = {}
    for name, node in graph.nodes.items():
        # Nodes come in the order of registration, so all that lead to one have a place already.
        before = [one for one in sources[name] if one in columns]
        column = max((columns[one] + 1 for one in before), default=0)
        band = keys.setdefault((node.run_id, node.sub_id), len(keys))
        if band == len(bands):
            bands.append(_AgentLanes())
        # If a node follows several nodes, the deepest one of its agent counts.
        own = max((one for one in before if band_of[one] == band), key=columns.__getitem__, default=None)
        columns[name], band_of[name] = column, band
        lanes[name] = bands[band].lane(lanes[own] if own is not None else 0, column)
    tops, top = [], 0
    for one in bands:
        tops.append(top)
        top += len(one.ends)
    return {name: Place(columns[name], tops[band_of[name]] + lanes[name], band_of[name]) for name in graph.nodes}
