"""Where the ends of the active branches go (SPEC D6)."""

from typing import Any

import pytest

from refold.domain.trajectory.factory import RunFactory

from .runs import add, asked

ADVANCE: dict[str, Any] = {}
APPEND, CLOSE, BOTH = {"add_pt": True}, {"remove_pt": True}, {"add_pt": True, "remove_pt": True}


@pytest.mark.parametrize(
    ("node_type", "options", "ends"),
    [
        ("State", ADVANCE, {"new"}), ("Action", ADVANCE, {"new"}),
        ("State", APPEND, {"a", "b", "new"}), ("Action", APPEND, {"a", "b", "new"}),
        ("State", CLOSE, set()), ("Action", CLOSE, set()),
        ("State", BOTH, {"a", "b", "new"}),
        ("Table", ADVANCE, {"a", "b"}), ("Table", APPEND, {"a", "b"}), ("Column", CLOSE, {"a", "b"}),
    ],
)  # fmt: skip
def test_a_node_behind_two_ends(node_type: str, options: dict[str, Any], ends: set[str]) -> None:
    """It takes their place, stands beside them, or closes both; data move nothing (SPEC D6.2 to D6.5, D6.8)."""
    run, query = asked()
    add(run, "State", query, label="a")
    add(run, "State", query, label="b", add_pt=True)
    add(run, node_type, "State(a)", "State(b)", label="new", **options)

    names = {"a": "State(a)", "b": "State(b)", "new": f"{node_type}(new)"}
    assert run.get_active_branch() == {names[end] for end in ends}


def test_a_query_is_an_end() -> None:
    """From the start, until something follows it."""
    run, query = asked()

    assert run.get_active_branch() == {query}
    assert isinstance(run.get_active_branch(), frozenset)


def test_pointers_are_moved() -> None:
    """Each once; what is so already is no event, and no name may be wrong."""
    run, query = asked()
    table = add(run, "Table", query)
    run.move_pointers(leave=[query], join=[table, table])
    version = run.version
    run.move_pointers(leave=[query], join=[table])
    run.move_pointers()
    with pytest.raises(ValueError, match="label 'nowhere'"):
        run.move_pointers(leave=[table], join=["Table(nowhere)"])

    assert run.version == version
    assert run.get_active_branch() == {table}


def test_what_led_to_an_end_that_is_removed() -> None:
    """All of it becomes an end (SPEC D6.7), what was one already too; what was none stays none."""
    run, query = asked()
    first, second = add(run, "State", query, label="a"), add(run, "State", query, label="b", add_pt=True)
    last = add(run, "State", first, second, add_pt=True)
    aside = add(run, "State", query, remove_pt=True)
    run.move_pointers(leave=[first])
    run.remove_node(aside)
    assert run.get_active_branch() == {second, last}

    run.remove_node(last)
    assert run.get_active_branch() == {first, second}


def test_ends_in_earlier_rounds() -> None:
    """They can be set there; removed by that round itself they are none any more, once it is restored again."""
    factory = RunFactory()
    first, query = asked(factory=factory)
    table = add(first, "Table", query)
    second, _ = asked(1, factory=factory)
    second.move_pointers(join=[table])
    first.remove_node(table)
    assert table in second.get_active_branch()

    second.restore_previous_runs()
    assert second.get_active_branch() == second.graph().pointers == {"Query(query00001)"}


def test_the_trimmed_graph() -> None:
    """Dead actions go, and what only they led to; without an end or a root all stays (SPEC D9.2, D9.3)."""
    run, query = asked()
    dead = add(run, "Action", query, remove_pt=True)
    orphan = add(run, "State", dead, remove_pt=True)
    live = add(run, "Action", query)
    kept = add(run, "State", query, remove_pt=True)
    data = add(run, "Table", live)

    trimmed = run.graph(trimmed=True)
    assert set(trimmed.nodes) == {query, live, kept, data}
    assert (trimmed.root, trimmed.initial) == (query, query)
    assert trimmed.pointers == {live}
    assert run.graph().limited_to([dead, orphan]).root is None
    run.move_pointers(leave=[live])
    assert run.graph(trimmed=True) == run.graph()
