"""Comparing a run with what it should show."""

from collections.abc import Iterable
from typing import Any

from refold.domain.trajectory.history import TrajectoryDiff
from refold.domain.trajectory.run import Run
from refold.domain.trajectory.trajectory import Trajectory

from .run_model import REQUIRED
from .run_view import DATA, Id, View


def check_shown(run: Run, view: View) -> None:
    """Compare the graph of a run, its pointers, steps and messages with the model."""
    graph = run.graph()
    names = view.names
    assert list(graph.nodes) == run.nodes() == list(names.values())
    assert {name: dict(node.attributes) for name, node in graph.nodes.items()} == {
        names[node]: view.attributes[node] for node in view.living
    }
    assert [(node.type, node.label, node.run_id, node.sub_id) for node in graph.nodes.values()] == [
        (*view.kind(node), *node[0]) for node in view.living
    ]
    check_edges(graph, view)
    assert graph.pointers == run.get_active_branch() == {names[node] for node in view.pointers if node in names}
    assert (graph.root, graph.initial) == (run.session_root, run.initial)
    assert (graph.root, graph.initial) == (_name(view, view.root), _name(view, view.query_of(view.key)))
    for queue, steps in view.queues()[0].items():
        held = run.steps(queue)
        assert held == [{"name": step.name, "params": step.params} for step in steps]
        assert [step.version for step in held] == [step.number for step in steps]
    assert [message.content for message in run.messages()] == view.said("message")
    assert run.is_closed == bool(view.said("closed"))


def check_edges(graph: Trajectory, view: View) -> None:
    """Compare the edges with the model; they close no cycle, whichever way one looks."""
    edges = [(edge.source, edge.target, edge.type) for edge in graph.edges]
    assert len(edges) == len(set(edges))
    assert set(edges) == {(view.names[source], view.names[target], kind) for source, target, kind in view.links}
    assert is_acyclic(graph.nodes, [edge[:2] for edge in edges])
    assert graph.is_acyclic
    merged = graph.by_identity()
    assert is_acyclic(merged.nodes, [(edge.source, edge.target) for edge in merged.edges if not edge.leads_back])
    assert merged.is_acyclic


def is_acyclic(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> bool:
    """Take away what nothing leads to, again and again: whether nothing is left."""
    left, there = set(nodes), set(edges)
    while left:
        free = left - {end for _, end in there}
        if not free:
            return False
        left -= free
        there = {edge for edge in there if edge[0] not in free}
    return True


def check_thoroughly(run: Run, view: View) -> None:
    """Compare what can be asked of each node, its history, and the graphs that are made of the graph."""
    graph = run.graph()
    for node in view.living:
        name = view.names[node]
        check_node(run, view, node)
        check_history(run, view, node)
        near = {name for source, target, _ in view.links if source == node for name in [view.names[target]]}
        assert near == set(graph.successors(name)) == set(run.successors(name))
        near = {name for source, target, _ in view.links if target == node for name in [view.names[source]]}
        assert near == set(graph.predecessors(name)) == set(run.predecessors(name))
        after = {view.names[one] for one in view.reached([node]) - {node}}
        assert after == graph.descendants(name) == set(run.descendants(name))
        before = {view.names[one] for one in view.reached([node], backward=True) - {node}}
        assert before == graph.ancestors(name) == set(run.ancestors(name))
    trimmed = run.graph(trimmed=True)
    assert set(trimmed.nodes) == {view.names[node] for node in view.trimmed()}
    assert set(trimmed.edges) == {edge for edge in graph.edges if {edge.source, edge.target} <= set(trimmed.nodes)}
    check_identities(graph, view)


def check_identities(graph: Trajectory, view: View) -> None:
    """Compare the graph in which data are there once with the model."""
    merged = graph.by_identity()
    plain = {node: _identity(view, node) for node in view.living}
    assert list(merged.nodes) == list(dict.fromkeys(plain.values()))
    assert {(edge.source, edge.target, edge.type) for edge in merged.edges} == {
        (plain[source], plain[target], kind) for source, target, kind in view.links
    }
    last = {plain[node]: view.attributes[node] for node in view.living}
    assert {name: dict(node.attributes) for name, node in merged.nodes.items()} == last
    assert merged.pointers == {plain[node] for node in view.pointers if node in plain}


def check_node(run: Run, view: View, node: Id) -> None:
    """Compare a node as it is given with the model."""
    node_type, label = view.kind(node)
    given = run.node(view.names[node])
    attributes = dict(view.attributes[node])
    assert type(given).__name__ == f"{node_type}Node"
    assert (given.label, given.session_id, given.run_id) == (label, run.session_id, node[0][0])
    assert given.description == attributes.pop("description")
    assert {name: getattr(given, name) for name in REQUIRED[node_type]} == {
        name: attributes.pop(name) for name in REQUIRED[node_type]
    }
    assert given.extra == attributes
    changes = [change.old for change in view.changes() if change.node == node]
    assert given.history == dict(enumerate(changes))


def check_history(run: Run, view: View, node: Id) -> None:
    """Replay the history of a node from nothing: it ends at what the node says now."""
    name = view.names[node]
    versions = run.versions(name)
    assert [version.kind for version in versions] == view.told_of(node)
    mine = [one for one in versions if (one.vertex.stream or run.stream_id, one.vertex.version) == _birth(run, name)]
    assert mine[-1].attributes == view.attributes[node]
    if "#" in name.rpartition(")")[2]:
        return
    replayed: dict[str, Any] = {}
    for change in run.history(name):
        assert replayed.get(change.attribute) == change.old
        replayed[change.attribute] = change.new
    present = {one: value for one, value in replayed.items() if value is not None}
    assert present == {one: value for one, value in view.attributes[node].items() if value is not None}
    assert run.node_at(name, mine[-1].version).description == view.attributes[node]["description"]


def check_diff(diff: TrajectoryDiff, then: View, now: View) -> None:
    """Compare what is different between two versions with the model; all that is in both has the names of now."""
    names = {**then.names, **now.names}
    assert sorted(diff.nodes_added) == sorted(names[node] for node in now.living if node not in then.names)
    assert sorted(diff.nodes_removed) == sorted(names[node] for node in then.living if node not in now.names)
    told = {(one.node, one.attribute): (one.old, one.new) for one in diff.changed}
    assert told == {
        (names[node], name): (old, now.attributes[node][name])
        for node in set(then.living) & set(now.living)
        for name, old in then.attributes[node].items()
        if old != now.attributes[node][name]
    }
    for edges, links in ((diff.edges_added, now.links - then.links), (diff.edges_removed, then.links - now.links)):
        given = sorted((edge.source, edge.target, edge.type) for edge in edges)
        assert given == sorted((names[source], names[target], kind) for source, target, kind in links)
    before, after = ({one for one in view.pointers if one in view.names} for view in (then, now))
    assert sorted(diff.pointers_added) == sorted(names[node] for node in after - before)
    assert sorted(diff.pointers_removed) == sorted(names[node] for node in before - after)


def _birth(run: Run, name: str) -> tuple[str, int]:
    stream, _, version = run.graph().nodes[name].birth.rpartition("@")
    return stream, int(version)


def _identity(view: View, node: Id) -> str:
    plain = "{}({})".format(*view.kind(node))
    return plain if view.kind(node)[0] in DATA else view.names[node]


def _name(view: View, node: Id | None) -> str | None:
    return None if node is None else view.names[node]
