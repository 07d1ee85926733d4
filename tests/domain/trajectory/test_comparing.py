"""What is different between two moments of a graph."""

from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.history import ChangedAttribute, TrajectoryDiff
from refold.domain.trajectory.trajectory import TrajectoryEdge

from .runs import add, asked, busy


def test_nothing() -> None:
    """A moment and itself are no different."""
    run, _ = asked()
    busy(run)

    assert run.diff(run.version) == run.diff(3, 3) == TrajectoryDiff()
    assert not run.diff(run.version)


def test_there_and_back() -> None:
    """What came one way went the other."""
    run, _ = asked()
    version = run.version
    busy(run)
    there, back = run.diff(version), run.diff(run.version, version)

    assert (there.nodes_added, there.nodes_removed) == (back.nodes_removed, back.nodes_added)
    assert (there.edges_added, there.edges_removed) == (back.edges_removed, back.edges_added)
    assert (there.pointers_added, there.pointers_removed) == (back.pointers_removed, back.pointers_added)
    assert there


def test_changed_attributes() -> None:
    """Old and new value of each, by the name that the node has at the end."""
    run, query = asked()
    table = add(run, "Table", query, label="t")
    version = run.version
    run.modify_node(table, {"path": "/new", "description": "d"})
    run.modify_node(table, {"description": ""})
    add(run, "Table", query, label="t")

    assert run.diff(version).changed == (ChangedAttribute("Table(t)#1", "path", "/t.csv", "/new"),)
    assert run.diff(version).nodes_added == ("Table(t)",)


def test_another_node_under_the_same_name() -> None:
    """One went and one came: nodes, edges and pointers of both are told."""
    run, query = asked()
    name = add(run, "Action", query, label="a", edge="triggers")
    version = run.version
    run.remove_node(name)
    add(run, "Action", query, label="a", edge="triggers")
    edge = TrajectoryEdge(query, "Action(a)", "triggers")

    assert run.diff(version) == TrajectoryDiff(
        nodes_added=(name,), nodes_removed=(name,), edges_added=(edge,), edges_removed=(edge,),
        pointers_added=(name,), pointers_removed=(name,),
    )  # fmt: skip


def test_a_node_that_is_called_otherwise() -> None:
    """It is the same node: neither it nor its edges nor its being a pointer changed."""
    run, query = asked()
    table = add(run, "Table", query, label="t")
    add(run, "Column", table, label="c")
    run.move_pointers(join=[table])
    version = run.version
    add(run, "Table", query, label="t")
    diff = run.diff(version)

    assert (diff.nodes_added, diff.nodes_removed, diff.changed) == (("Table(t)",), (), ())
    assert (diff.edges_added, diff.edges_removed) == ((TrajectoryEdge(query, "Table(t)", "next"),), ())
    assert (diff.pointers_added, diff.pointers_removed) == ((), ())


def test_an_earlier_round() -> None:
    """What a restoration brings is different too."""
    factory = RunFactory()
    asked(factory=factory)
    run = factory.run("mia", "s", 1, restore=False)
    run.register_query("q")
    version = run.version
    run.restore_previous_runs()

    assert run.diff(version).nodes_added == ("Query(query00000)#1",)
    assert run.diff(version).edges_added == (
        TrajectoryEdge("Query(query00000)#1", "Query(query00000)", "continues_to"),
    )


def test_another_run() -> None:
    """It is compared as it is: rounds of a session share nodes, in other sessions nodes of one name are the same."""
    factory = RunFactory()
    asked(factory=factory)
    second = factory.run("mia", "s", 1)
    query = second.register_query("q")
    other = factory.run("mia", "other", 0)
    other.register_query("q")

    assert second.diff(factory.run("mia", "s", 0)).nodes_added == (query,)
    assert other.diff(second.at(0)).nodes_added == ("Query(query00000)",)
    assert second.diff(other).nodes_added == (query,)
    assert not second.diff(second, second.readonly)
