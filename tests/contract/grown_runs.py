"""Two rounds of a session, with some of every change of a run."""

from typing import Any

from refold.infrastructure.store import Store
from refold.trajectory import Run

ACTION: dict[str, Any] = {"action": "look", "params": {}, "output": "none", "success": True}


async def fill_runs(store: Store) -> tuple[str, str]:
    """Make a round and one that goes back over it; return their streams."""
    first, second = (store.run("mia", "s", number, agent="finder") for number in range(2))
    query = first.register_query("which orders are late?")
    await grow(first, query)
    first.close("done")
    follow_up = second.register_query("and which were returned?", label="another")
    second.restore_previous_runs()
    await grow(second, follow_up)
    second.modify_node("Table(orders)#1", {"path": "/later"})
    second.remove_node("State(state00000)", reason="wrong")
    second.restore_previous_runs()
    return first.stream_id, second.stream_id


async def grow(run: Run, query: str) -> None:
    """Record some of every change."""
    action = run.register_node("Action", "looked", [query], **ACTION)
    named = run.register_node("Action", "looked again", [query], label="action000012", **ACTION)
    for number, label in enumerate(("orders", "orders", "table00007", "table7", None)):
        run.register_node("Table", "", [action], label=label, path=f"/{number}")
    run.modify_node("Table(orders)", {"path": "/new", "description": "all orders"})
    run.modify_node("Table(orders)", {"path": "/newer"})
    for kind in ("outputs", "feeds", "feeds"):
        run.add_edge(named, "Table(table7)" if kind == "outputs" else "Table(table00007)", kind)
    state = run.register_node("State", "concluded", [named], state="late")
    run.remove_node("Table(table7)", reason="empty")
    run.move_pointers(join=[action], leave=[state])
    run.record_messages({"role": "user", "content": "go on"}, {"role": "assistant", "content": "yes"})
    for name in "abc":
        run.append_todo(name, {"n": name})
    run.init_todolist(["before"], ["after"])
    step, _ = run.pop_todo(), run.pop_todo()
    assert step is not None
    run.return_step(step)
    run.clear_steps("post")
    run.portray_with(lambda _: "described", model="m")
    run.profiling()
    await run.wait_portraits()
    run.name_version("here")
