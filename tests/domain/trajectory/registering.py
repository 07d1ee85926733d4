"""Nodes to try things on: registered with what their types require; and a witness that nothing was."""

from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.run import Run


def new_run(round_number: int = 0, factory: RunFactory | None = None) -> Run:
    """Return a run with nothing in it yet."""
    return (factory or RunFactory()).run("mia", "s1", round_number)


def asked_run(round_number: int = 0, factory: RunFactory | None = None) -> tuple[Run, str]:
    """Return a run with a query, and the query's name."""
    run = new_run(round_number, factory)
    return run, run.register_query("q", [])


def action(run: Run, *predecessors: str, **options: Any) -> str:
    """Register an action."""
    fields = {"action": "x", "params": {}, "output": None, "success": True, **options}
    return run.register_node("Action", "d", list(predecessors), **fields)


def state(run: Run, *predecessors: str, **options: Any) -> str:
    """Register a conclusion."""
    return run.register_node("State", "d", list(predecessors), **{"state": "s", **options})


def table(run: Run, predecessor: str, label: str | None = "orders", **options: Any) -> str:
    """Register a table."""
    return run.register_node("Table", "d0", [predecessor], "has", label, **{"path": "p", **options})


def edges(run: Run) -> list[tuple[str, str, str]]:
    """Return the edges of a run's graph."""
    return [(edge.source, edge.target, edge.type) for edge in run.graph().edges]


def pointers(run: Run) -> list[str]:
    """Return the pointers of a run."""
    return sorted(run.get_active_branch())


def unchanged(run: Run, call: Callable[[], object], error: type[Exception], message: str) -> None:
    """Assert that a call is refused, and has changed nothing."""
    before = run.version
    with pytest.raises(error) as refused:
        call()

    assert (str(refused.value), run.version) == (message, before)
