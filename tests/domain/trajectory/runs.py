"""Short ways to runs, and to what is in them."""

from typing import Any

from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.run import Run

# What each type requires, with a value.
FIELDS: dict[str, dict[str, Any]] = {
    "State": {"state": "done"},
    "Action": {"action": "look", "params": {"in": "shop"}, "output": None, "success": True},
    "Knowledge": {"knowledge_type": "fact", "knowledge_content": "it is so"},
    "Tool": {"tool_params": {"q": "str"}, "tool_returns": "rows"},
    "Table": {"path": "/t.csv"},
    "Column": {"from_table": "t", "values": [1, 2.5], "supplementary_schemas": {}},
    "File": {"path": "/f", "source": "web"},
    "Script": {"script_content": "ls", "script_type": "sh", "path": "/s", "related_data_list": []},
    "Skill": {"path": "/k"},
}


def asked(round_number: int = 0, *, factory: RunFactory | None = None, sub: int = 0) -> tuple[Run, str]:
    """Return a run with a query, and the query's name."""
    run = (factory or RunFactory()).run("mia", "s", round_number, sub)
    return run, run.register_query(f"question {round_number}")


def add(run: Run, node_type: str, *behind: str, label: str | None = None, edge: str | None = None, **given: Any) -> str:
    """Register a node behind others, with an edge of the type "next" where none is usual."""
    fields = FIELDS[node_type] | given
    description, options = fields.pop("description", ""), {k: fields.pop(k) for k in OPTIONS if k in fields}
    return run.register_node(node_type, description, behind, edge or "next", label, **options, **fields)


OPTIONS = ("add_pt", "remove_pt", "expected_version", "idempotency_key")


def edges(run: Run) -> set[tuple[str, str]]:
    """Return the ends of all edges."""
    return {(edge.source, edge.target) for edge in run.graph().edges}


def bridges(run: Run) -> set[tuple[str, str]]:
    """Return the ends of the edges between rounds."""
    return {(edge.source, edge.target) for edge in run.graph().edges if edge.type == "continues_to"}


def told(run: Run, name: str) -> list[tuple[str, str, Any, Any]]:
    """Return the history of a node: kind, attribute, old and new value."""
    return [(one.kind, one.attribute, one.old, one.new) for one in run.history(name)]


def everything(run: Run) -> dict[str, Any]:
    """Return all that a run shows, as plain values."""
    graph = run.graph()
    return {
        "version": run.version,
        "nodes": {name: [node.birth, node.created_at, dict(node.attributes)] for name, node in graph.nodes.items()},
        "edges": sorted([edge.source, edge.target, edge.type] for edge in graph.edges),
        "ends": [graph.root, graph.initial, sorted(graph.pointers)],
        "histories": {name: [list(one[:6]) for one in run.history(name)] for name in graph.nodes},
        "steps": {queue: [[step, step.version] for step in run.steps(queue)] for queue in ("pre", "todo", "post")},
        "messages": [message.to_dict() for message in run.messages()],
        "names": run.names(),
        "closed": run.is_closed,
    }


def busy(run: Run) -> None:
    """Have everything happen to a run that has a query."""
    query = run.initial or ""
    action = add(run, "Action", query, label="a)#2", edge="triggers")
    table = add(run, "Table", action, label="orders\n(all)", description="ä" * 3_000, note=[1, None])
    add(run, "Table", action, label="orders\n(all)", path="/again")
    state = add(run, "State", action, description="so it is")
    dead = add(run, "State", query, add_pt=True)
    run.modify_node(state, {"state": {"漢": [1.5]}, "description": ""})
    run.modify_node(f"{table}#1", {"note": None})
    run.add_edge(table, state, "tells")
    run.remove_node(dead, reason="wrong")
    run.move_pointers(leave=[state], join=[query])
    run.name_version("here")
    run.init_todolist(["one", {"name": "two", "params": {"x": 1}}], ["last"])
    run.append_todo("look")
    step = run.pop_todo("pre")
    run.pop_todo("todo")
    assert step is not None
    run.return_step(step)
    run.record_messages(
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi", "id": "m1", "name": "mia"},
        {"role": "tool", "content": "no", "tool_call_id": "c", "status": "error"},
    )
