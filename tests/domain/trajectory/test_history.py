"""What became of a node: versions over all rounds, each replayable from nothing (SPEC D8)."""

from functools import partial

import pytest

from refold.domain.errors import NotFoundError
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.nodes import NodeNotFoundError
from tests.support.effort import calls_of

from .runs import add, asked, told


def test_versions_are_counted_over_rounds() -> None:
    """Registered, changed here and there, met again, changed as it was before; each with its own round's event."""
    factory = RunFactory()
    first, query = asked(factory=factory)
    add(first, "Table", query, label="t", description="d0", path="/0")
    first.modify_node("Table(t)", {"path": "/1"})
    second, query = asked(1, factory=factory)
    second.modify_node("Table(t)", {"path": "/2"})
    add(second, "Table", query, label="t", path="/3")
    second.modify_node("Table(t)#1", {"path": "/2b"})
    versions = second.versions("Table(t)")

    assert [(one.version, one.kind, one.attributes["path"]) for one in versions] == [
        (1, "registered", "/0"), (2, "changed", "/1"), (3, "changed", "/2"), (4, "changed", "/2b"),
        (5, "met_again", "/3"),
    ]  # fmt: skip
    assert [one.recorded.stream.split("/")[-2] for one in versions] == ["0", "0", "1", "1", "1"]
    assert all(one.attributes["description"] == "d0" for one in versions)
    assert second.versions("Table(t)#1") == versions
    assert len(first.versions("Table(t)")) == 2


def test_what_is_told_of_attributes() -> None:
    """What came and what became of it; a value that was set to what it was is told, one that stayed is not."""
    run, query = asked()
    table = add(run, "Table", query, label="t", description="d", path="/0")
    run.modify_node(table, {"path": "/0", "description": "e"})
    add(run, "Table", query, label="t", path="/0", note=1)

    assert told(run, table) == [
        ("registered", "description", None, "d"), ("registered", "path", None, "/0"),
        ("changed", "description", "d", "e"), ("changed", "path", "/0", "/0"), ("met_again", "note", None, 1),
    ]  # fmt: skip
    assert [one.version for one in run.history(table, "note")] == [3]
    with pytest.raises(NotFoundError, match="never had an attribute 'nope': it has description, path, note"):
        run.history(table, "nope")


def test_old_values_by_number() -> None:
    """Each change of this vertex, from 0, whatever it changed (SPEC D8.1, D8.2); nothing for no change (D8.5)."""
    run, query = asked()
    table = add(run, "Table", query, description="d0", path="p")
    run.modify_node(table, {"description": "d1"})
    run.modify_node(table, {})
    run.modify_node(table, {"description": "d2", "path": "q"})

    assert run.node(table).history == {0: {"description": "d0"}, 1: {"description": "d1", "path": "p"}}
    assert run.version == 5


def test_a_node_at_its_versions() -> None:
    """From the first and from the last; the last one is the node itself."""
    run, query = asked()
    table = add(run, "Table", query, label="t", path="/0")
    run.modify_node(table, {"path": "/1"})
    add(run, "Table", query, label="t", path="/2")
    run.modify_node(table, {"path": "/3"})

    paths = [run.node_at(table, version).get_full_content()["path"] for version in (1, 2, 3, 4, -1, -4)]
    assert paths == ["/0", "/1", "/2", "/3", "/3", "/0"]
    assert run.node_at(table, -1) == run.node(table)
    assert run.node_at(table, 2) == run.node(f"{table}#1")
    # Any vertex of a data node names the whole node.
    assert run.node_at(f"{table}#1", -1) == run.node(table)
    assert run.node_at(table, 3).history == {}
    for version in (0, 5, -5):
        with pytest.raises(NodeNotFoundError, match=f"no version {version}: it has 1 to 4"):
            run.node_at(table, version)


def test_a_node_that_was_removed() -> None:
    """Its history stays, by its name and by its number, and ends with nothing."""
    run, query = asked()
    state = add(run, "State", query, label="s")
    run.remove_node(state, reason="wrong")

    assert run.versions(state) == run.versions(f"{state}#1")
    assert told(run, state)[-1] == ("removed", "state", "done", None)
    assert run.versions(state)[-1].recorded.event.reason == "wrong"
    with pytest.raises(NodeNotFoundError, match="removed by its version 2"):
        run.node_at(state, -1)
    with pytest.raises(NodeNotFoundError, match="label 's'"):
        run.node(state)
    with pytest.raises(NodeNotFoundError):
        run.history("State(never)")


def test_the_newest_of_data_is_removed() -> None:
    """They say again what they said before; so their history still ends at the present."""
    run, query = asked()
    for path in ("/1", "/2", "/3"):
        add(run, "Table", query, label="t", path=path)
    run.modify_node("Table(t)#1", {"description": "the first"})
    run.remove_node("Table(t)#2")
    run.remove_node("Table(t)")

    assert run.node_at("Table(t)", -1) == run.node_at("Table(t)", 4) == run.node("Table(t)")
    assert run.node("Table(t)").get_full_content()["path"] == "/1"
    assert run.history("Table(t)", "path")[-1].new == "/1"
    add(run, "Table", "Table(t)", label="t")
    assert run.nodes("Table") == ["Table(t)#1", "Table(t)"]
    assert run.node("Table(t)").get_full_content()["path"] == run.history("Table(t)", "path")[-1].new == "/t.csv"


def test_data_after_all_of_them_were_removed() -> None:
    """They are new: what they were before is not taken over, though it is told."""
    run, query = asked()
    run.remove_node(add(run, "Table", query, label="t", description="old", note=1))
    run.remove_node(add(run, "Table", query, label="t"))
    table = add(run, "Table", query, label="t", path="/2")

    assert (run.node(table).description, run.node(table).extra) == ("", {})
    assert [one.kind for one in run.versions(table)] == ["registered", "removed", "met_again", "removed", "met_again"]


def test_what_is_met_again_keeps_what_is_not_given() -> None:
    """Required fields may be left out then, and the description; the vertex before stays what it was (SPEC D4.5)."""
    run, query = asked()
    table = add(run, "Column", query, label="c", description="d", note=[1])
    run.modify_node(table, {"values": [7]})
    run.register_node("Column", "", [table], "next", "c", from_table="other")

    node, before = run.node(table), run.node(f"{table}#1")
    assert (node.description, node.extra["note"], node.history) == ("d", [1], {})
    assert (node.get_full_content()["values"], node.get_full_content()["from_table"]) == ([7], "other")
    assert (before.get_full_content()["from_table"], len(before.history)) == ("t", 1)
    assert run.predecessors(table) == [f"{table}#1"]


def test_a_node_of_many_rounds() -> None:
    """For each round that met a node its history takes the same, unless rounds in between change what came before."""
    work: list[int] = []
    factory = RunFactory()
    for number in range(40):
        run, query = asked(number, factory=factory)
        add(run, "Table", query, label="orders", path=f"/{number}")
        run.nodes()
        work.append(calls_of(partial(run.history, "Table(orders)")))

    assert work[39] - work[19] <= 2.2 * (work[19] - work[9])
    run.modify_node("Table(orders)#3", {"path": "/new"})
    assert "/new" in [new for *_, new in told(run, "Table(orders)#3")], "a later round changed it"
