"""Rounds to be written, and files as the originals write them."""

import json
from pathlib import Path
from typing import Any

import msgspec

import refold
from refold.domain.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from refold.domain.trajectory.commands import RequestPortrait, WritePortrait
from refold.domain.trajectory.graph import RunGraph
from refold.domain.trajectory.run import Run
from refold.domain.trajectory.trajectory import Trajectory

USER, SESSION = "mia", "s/1"
TALK = [
    SystemMessage("Be brief."),
    HumanMessage("How many?", id="m1"),
    AIMessage("", tool_calls=[{"name": "count", "args": {"of": "é"}, "id": "c1"}]),
    ToolMessage("none", tool_call_id="c1", status="error"),
]


def busy_run(store: refold.Store) -> Run:
    """
    Return a first round with everything in it: changes by several, a portrait, edges of all kinds, what was removed.
    """
    run = store.run(USER, SESSION, 0, agent="counter")
    query = run.register_query("How many?", ["/a.csv"])
    action = run.register_node(
        "Action", "count", [query], action="count", params={"of": "é"}, output=None, success=True
    )
    table = run.register_node("Table", "", [action], label="orders (2031)", path="/o.csv", id=7)
    file = run.register_node("File", "", [action], label="f", path="/f", source="disk")
    state = run.register_node("State", "none", [action], state={"rows": [1, 2.5, None]})
    gone = run.register_node("State", "wrong", [query], "guesses", add_pt=True, state="lost")
    with refold.acting(actor="bob"):
        run.modify_node(table, {"path": "/p.csv", "id": 8})
        run.modify_node(table, {"path": "/q.csv"})
    portray(run, file, "What was found.", model="m.Model")
    run.add_edge(query, table, "names")
    run.add_edge(action, table, "reads")
    # An edge to an older node.
    run.add_edge(state, file, "explains")
    run.register_node("Table", "", [state], "reads", label="orders (2031)", path="/r.csv")
    run.remove_node(gone)
    run.move_pointers(join=[action])
    run.record_messages(*TALK)
    return run


def next_run(store: refold.Store) -> Run:
    """Return a second round, which meets the table again."""
    run = store.run(USER, SESSION, 1)
    action = run.register_node(
        "Action", "again", [run.register_query("And now?")], action="count", params={}, output="3", success=True
    )
    run.register_node("Table", "", [action], label="orders (2031)", path="/s.csv")
    return run


def portray(run: Run, name: str, description: str, model: str) -> None:
    """Record what a model says of a node."""
    ref = RunGraph(run._state).resolve(name)
    for command in (RequestPortrait(ref, model), WritePortrait(ref, description, model)):
        run._record(command, None, None, catch_up=True)


def without_births(graph: Trajectory) -> tuple[Any, ...]:
    """Return what a graph says, but for the versions that registered its nodes."""
    nodes = {name: msgspec.structs.replace(node, birth="") for name, node in graph.nodes.items()}
    edges = sorted(graph.edges, key=msgspec.structs.astuple)
    return list(nodes.items()), edges, graph.root, graph.initial, graph.pointers


def changes(run: Run, name: str) -> list[tuple[Any, ...]]:
    """Return what became of a node: what, from what to what, by whom, when."""
    return [(one.attribute, one.old, one.new, one.kind, one.actor, one.made_at) for one in run.history(name)]


# As the originals write them


def node(name: str, /, **attributes: Any) -> dict[str, Any]:
    """Return a node as the originals write it: of this round, unless it is said."""
    return {"node_type": name.partition("(")[0], "description": "d", "run_id": 0, **attributes, "id": name}


def edge(source: str, target: str, edge_type: str = "has") -> dict[str, Any]:
    """Return an edge as the originals write it."""
    return {"edge_type": edge_type, "source": source, "target": target}


QUERY = node("Query(query00000)", query="q", additional_files=[])
ACTION = node("Action(action00000)", action="x", params={}, output="o", success=True)
STATE = node("State(state00000)", state="s")
ASKS = edge("Query(query00000)", "Action(action00000)", "triggers")
ENDS = edge("Action(action00000)", "State(state00000)", "has_conclusion")


def table(label: str, **attributes: Any) -> dict[str, Any]:
    """Return a table as the originals write it."""
    return node(f"Table({label})", **{"path": "/o", **attributes})


def write_original(
    root: Path,
    nodes: list[dict[str, Any]],
    edges: list[dict[str, Any]],
    *,
    meta: Any = None,
    run: int = 0,
    sub: int = 0,
    links: str = "edges",
    **more: Any,
) -> Path:
    """
    Write the files of a round as the originals do, and return the one of the graph; without `meta` it is the only one.
    """
    folder = root / ".context"
    folder.mkdir(parents=True, exist_ok=True)
    graph = {"directed": True, "multigraph": False, "graph": {}, "nodes": nodes, links: edges, **more}
    path = folder / f"Run{run}_Sub{sub}.json"
    path.write_text(json.dumps(graph, indent=4, ensure_ascii=False), encoding="utf-8")
    if meta is not None:
        (folder / f"Run{run}_Sub{sub}.meta.json").write_text(json.dumps(meta, indent=4), encoding="utf-8")
    return path


def edges_of(run: Run) -> set[tuple[str, str, str]]:
    """Return the edges of a run's graph."""
    return {(one.source, one.target, one.type) for one in run.graph().edges}
