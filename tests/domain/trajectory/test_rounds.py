"""Rounds as values: which of them have the same content."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from refold.domain.errors import InvalidInputError
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.rounds import RoundChange, RoundNode, RoundRecord, are_same, checked_round, export_round
from refold.domain.trajectory.trajectory import TrajectoryEdge
from tests.support.effort import calls_of

from .runs import add, asked

CHANGE = RoundChange(kind="changed", actor="mia", at=3.0, old={"text": "How many?"})
NODE = RoundNode(
    name="Query(orders)", type="Query", label="orders", attributes={"text": "Which?"}, created_at=2.0, changes=(CHANGE,)
)
OTHER = RoundNode(name="State(found)", type="State", label="found", attributes={"rows": 3}, created_at=4.0)
EDGE = TrajectoryEdge("Query(orders)", "State(found)", "next")
ROUND = RoundRecord(
    run_id=1, sub_id=0, nodes=(NODE, OTHER), edges=(EDGE,), pointers=frozenset({"State(found)"}),
    messages=({"role": "user", "content": "Which?"},),
)  # fmt: skip


def changed(**fields: Any) -> Callable[[RoundRecord], RoundRecord]:
    """Have other fields in the change of the first node."""
    return lambda record: node(changes=(replace(CHANGE, **fields),))(record)


def node(**fields: Any) -> Callable[[RoundRecord], RoundRecord]:
    """Have other fields in the first node."""
    return lambda record: replace(record, nodes=(replace(NODE, **fields), OTHER))


def whole(**fields: Any) -> Callable[[RoundRecord], RoundRecord]:
    """Have other fields in the round."""
    return lambda record: replace(record, **fields)


@pytest.mark.parametrize(
    "change",
    [
        node(name="Query(other)"), node(attributes={"text": "Who?"}), node(attributes={}), node(created_at=2.5),
        node(changes=()), changed(old={}), changed(at=3.5), whole(nodes=(NODE,)), whole(edges=()),
        whole(edges=(EDGE, TrajectoryEdge("State(found)", "Query(orders)", "next"))), whole(pointers=frozenset()),
        whole(messages=()), whole(messages=({"role": "user", "content": "Who?"},)),
    ],
)  # fmt: skip
def test_rounds_that_differ(change: Callable[[RoundRecord], RoundRecord]) -> None:
    """Each part of the content counts, on whichever side it is."""
    assert not are_same(change(ROUND), ROUND)
    assert not are_same(ROUND, change(ROUND))


@pytest.mark.parametrize(
    "change",
    [
        node(), node(actor="tom"), node(created_at=None), changed(at=None), changed(actor=None),
        whole(nodes=(OTHER, NODE)), whole(agent="tom"), whole(version=9), node(attributes={"text": "Which?"}),
    ],
)  # fmt: skip
def test_rounds_that_are_the_same(change: Callable[[RoundRecord], RoundRecord]) -> None:
    """Actors do not count, nor the order of nodes, nor a time that one of the two lacks."""
    assert are_same(change(ROUND), ROUND)
    assert are_same(ROUND, change(ROUND))


def test_a_pointer_to_no_node() -> None:
    """A record that names one is refused, and the error says which."""
    found = replace(OTHER, attributes={"description": "", "state": "so it is"})
    right = replace(ROUND, nodes=(found,), edges=())
    wrong = replace(right, pointers=frozenset({"State(found)", "State(lost)"}))

    with pytest.raises(InvalidInputError, match=r"it holds the pointer 'State\(lost\)', and no such node"):
        checked_round(wrong)
    assert checked_round(right) is right


def test_a_late_round_costs_as_much_as_an_early_one() -> None:
    """Of the rounds before it nothing is read, so the export of a session takes as long as its rounds are."""
    factory = RunFactory()
    for number in range(40):
        run, query = asked(number, factory=factory)
        add(run, "State", query, label="done")
    early, late = (calls_of(partial(export_of, factory, number)) for number in (2, 39))

    assert late <= 1.5 * early


def export_of(factory: RunFactory, number: int) -> RoundRecord:
    """Return the export of a round of which no object is there."""
    factory.release()
    return export_round(factory.run("mia", "s", number, create=False))
