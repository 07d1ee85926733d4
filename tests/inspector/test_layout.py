"""The places of a graph's nodes: what holds for each graph, and that one of many branches stays low."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType, ModuleType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refold.domain.trajectory.trajectory import Trajectory, TrajectoryEdge, TrajectoryNode
from refold.infrastructure.inspector import layout
from refold.infrastructure.inspector.layout import Place, laid_out


@given(st.lists(st.lists(st.integers(0, 30), max_size=3), max_size=40), st.integers(1, 3))
def test_what_leads_to_a_node_is_left_of_it(sources: list[list[int]], agents: int) -> None:
    """No two nodes share a place, edges go right, and nodes that come later move none within the lanes of its agent."""
    edges = [(source, number) for number, found in enumerate(sources) for source in set(filter(number.__gt__, found))]
    places = _places(len(sources), edges, agents)
    half = len(sources) // 2
    before = _places(half, [edge for edge in edges if edge[1] < half], agents)

    assert len({(place.column, place.row) for place in places}) == len(places)
    assert all(places[source].column < places[target].column for source, target in edges)
    assert _within_bands(before) == _within_bands(places)[:half]


def test_a_graph_of_branches_that_end_stays_low() -> None:
    """A branch that ended makes room for others: there are few more rows than the fullest column has nodes."""
    random = Random("branches")
    ends, edges, made = [0], list[tuple[int, int]](), 1
    while made < 3_000:
        end = ends.pop(random.randrange(len(ends))) if len(ends) > 12 else random.choice(ends)
        fan = range(made, made + random.choice((1, 2, 5, 9)))
        edges += ((end, number) for number in fan)
        ends.append(fan[-1])
        made = fan.stop
    places = _places(made, edges)
    fullest = max(Counter(place.column for place in places).values())

    assert len({(place.column, place.row) for place in places}) == made
    assert max(place.row for place in places) < 2 * fullest


def test_a_straight_run_is_a_straight_line() -> None:
    """Also beside a branch that was there before it."""
    chains = [(0, 1), *((number, number + 1) for number in range(1, 50)), (0, 51)]
    places = _places(100, [*chains, *((number, number + 1) for number in range(51, 99))])

    assert len({place.row for place in places[:51]}) == 1
    assert len({place.row for place in places[51:]}) == 1


def test_siblings_take_hardly_longer_than_a_chain() -> None:
    """Of 2,000 nodes that go on from one, none has its lane looked for from the beginning."""
    count = 2_000
    lines = []
    for edges in ([(number, number + 1) for number in range(count)], [(0, number + 1) for number in range(count)]):
        with lines_of(layout) as run:
            places = _places(count + 1, edges)
        lines.append(len(run))

    assert sorted(place.row for place in places[1:]) == list(range(count))
    assert lines[1] < 6 * lines[0]


@contextmanager
def lines_of(module: ModuleType) -> Iterator[list[int]]:
    """Note the lines of a module that are run."""
    run: list[int] = []

    def note(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != module.__file__:
            return None
        run.append(frame.f_lineno)
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        yield run
    finally:
        sys.settrace(before)


def _places(count: int, edges: list[tuple[int, int]], agents: int = 1) -> list[Place]:
    """Return the places of nodes by their numbers; agents take turns."""
    nodes = [
        TrajectoryNode(
            name=str(number), birth=f"run:u/s/0/{number % agents}@{number + 1}", type="State", label=str(number),
            run_id=0, sub_id=number % agents, created_at=0.0, attributes={},
        )
        for number in range(count)
    ]  # fmt: skip
    named = [TrajectoryEdge(str(source), str(target), "INFORMS") for source, target in edges]
    found = laid_out(Trajectory(nodes, named, root=None, initial=None, pointers=()))
    return [found[str(number)] for number in range(count)]


def _within_bands(places: list[Place]) -> list[tuple[int, int, int]]:
    """Return the places with rows counted from the first one of their band, which has a node in it."""
    tops: dict[int, int] = {}
    for place in places:
        tops[place.band] = min(tops.get(place.band, place.row), place.row)
    return [(place.column, place.row - tops[place.band], place.band) for place in places]
