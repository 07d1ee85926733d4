"""Runs that the tests of commands begin with."""

from pathlib import Path
from typing import Any

import refold as package
from refold.domain.trajectory.run import Run

ACT: dict[str, Any] = {"action": "read", "params": {"a": 1}, "output": None, "success": True}


def rounds(path: Path | str) -> None:
    """Put two rounds of mia's session `sales` into a database, at versions 9 and 13, and a sub-agent of the second."""
    with package.open(path, synchronous="NORMAL") as store, package.acting(actor="mia"):
        _first(store.run("mia", "sales", agent="analyst"))
        _second(store.run("mia", "sales", 1))
        store.run("mia", "sales", 1, None).register_query("Which table?")


def _first(run: Run) -> None:
    query = run.register_query("How many orders?")
    action = run.register_node("Action", "looks", [query], **ACT)
    table = run.register_node("Table", "", [action], label="orders (all)", path="/orders.csv")
    run.register_node("State", "concludes", [action], state="there are 7")
    run.modify_node(table, {"description": "all orders", "path": "/new.csv"})
    run.record_messages({"type": "human", "content": "How many orders?"}, {"type": "ai", "content": "There are 7."})
    run.close("answered")


def _second(run: Run) -> None:
    query = run.register_query("And who ordered?")
    action = run.register_node("Action", "reads", [query], **ACT)
    table = run.register_node("Table", "", [action], label="orders (all)", path="/other.csv")
    wrong = run.register_node("File", "", [action], label="x", path="/x", source="")
    run.remove_node(wrong, reason="it is not there")
    run.move_pointers(leave=[action], join=[table])
    run.add_edge(query, table, "asks_for")
    run.append_todo("count", {"by": "day"})
    run.append_todo("tell")
    run.pop_todo()
    run.name_version("counted")
