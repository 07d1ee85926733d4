"""What is refused: with which error, and that nothing is changed then (SPEC D2 to D8)."""

from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.errors import DecisionRefusedError, InvalidInputError, ReadOnlyError, RefoldError
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.nodes import NodeNotFoundError, RunStateError, UnknownAttributeError
from refold.domain.trajectory.run import Run

from .runs import FIELDS, add, asked, everything

Q, T = "Query(query00000)", "Table(t)"
Call = Callable[[Run], Any]


def table(run: Run, *behind: str, **options: Any) -> str:
    """Register a table by its plain call."""
    given: dict[str, Any] = {"description": "", "edge_type": "x", "path": 1} | options
    return run.register_node("Table", predecessor_node=behind, **given)


# Each call, the error, and what it says.
REFUSED: list[tuple[Call, type[Exception], str]] = [
    (lambda run: run.register_query("again"), RunStateError, "more than one query"),
    (lambda run: table(run), InvalidInputError, "At least one predecessor node is required."),
    (lambda run: table(run, "Table(no)"), NodeNotFoundError, "Cannot find predecessor node Table\\(no\\)"),
    (lambda run: table(run, "Table"), InvalidInputError, "illegal format"),
    (lambda run: table(run, 5), InvalidInputError, "list of names of nodes"),  # type: ignore[arg-type]
    (lambda run: table(run, Q, edge_type=None), InvalidInputError, "No default edge type"),
    (lambda run: table(run, Q, edge_type=5), InvalidInputError, "the edge type is 5"),
    (lambda run: table(run, Q, label=""), InvalidInputError, "at least one character"),
    (lambda run: table(run, Q, label=5), InvalidInputError, "not 5"),
    (lambda run: table(run, Q, label="\ud800"), InvalidInputError, "surrogate"),
    (lambda run: table(run, Q, description=None), InvalidInputError, "the description is None"),
    (lambda run: table(run, Q, description="\ud800"), InvalidInputError, "surrogate"),
    (lambda run: table(run, Q, path={1}), InvalidInputError, "field 'path' of Table\\(table00001\\)"),
    (lambda run: table(run, Q, path=float("nan")), InvalidInputError, "field 'path'"),
    (lambda run: table(run, Q, note={1: 2}), InvalidInputError, "field 'note'"),
    (lambda run: table(run, Q, created_at=1), InvalidInputError, "cannot have a field 'created_at'"),
    (lambda run: add(run, "State", Q, label="s"), InvalidInputError, "Multiple nodes with same label detected."),
    (lambda run: run.register_node("Response", "", [Q]), InvalidInputError, "no node type 'Response': it is one of"),
    (lambda run: run.register_node("Query", "", [Q], query=1), InvalidInputError, "by register_query"),
    (lambda run: run.modify_node(T, {"nope": 1}), UnknownAttributeError, "no attribute 'nope'.*description, path"),
    (lambda run: run.modify_node(T, {"path": 1, "label": "x"}), UnknownAttributeError, "'label'"),
    (lambda run: run.modify_node(T, {"path": 1, "history": {}}), UnknownAttributeError, "'history'"),
    (lambda run: run.modify_node(T, {"description": "x", "path": {1}}), InvalidInputError, "'path' of Table\\(t\\)"),
    (lambda run: run.modify_node(T, {"path": 1, "description": 5}), InvalidInputError, "the description is 5"),
    (lambda run: run.modify_node("Table(no)", {}), NodeNotFoundError, "label 'no' of type 'Table'"),
    (lambda run: run.modify_node("No(t)", {"path": 1}), NodeNotFoundError, "type 'No'"),
    (lambda run: run.modify_node("Table", {"path": 1}), InvalidInputError, "illegal format"),
    (lambda run: run.remove_node("Table(t)#2"), NodeNotFoundError, "label 't'"),
    (lambda run: run.remove_node(T, reason=5), InvalidInputError, "the reason is 5"),  # type: ignore[arg-type]
    (lambda run: run.move_pointers(leave=[Q], join=["x"]), InvalidInputError, "illegal format"),
    (lambda run: run.add_edge(T, T, "x"), DecisionRefusedError, "close a cycle"),
    (lambda run: run.close(5), InvalidInputError, "the reason is 5"),  # type: ignore[arg-type]
    (lambda run: run.at(99), KeyError, "no version 99"),
    (lambda run: run.diff("never"), KeyError, "named 'never'"),
]  # fmt: skip


def short_run() -> Run:
    """Return a run with a query, a state and a table."""
    run, query = asked()
    add(run, "State", query, label="s")
    add(run, "Table", query, label="t")
    return run


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refused_calls(call: Call, error: type[Exception], message: str) -> None:
    """The error says what was wrong, is one of Refold's, and what was there is there."""
    run = short_run()
    before = everything(run)
    with pytest.raises(error, match=message) as caught:
        call(run)

    assert isinstance(caught.value, RefoldError)
    assert everything(run) == before
    assert run._journal.log.head(run.stream_id) == run.version


@pytest.mark.parametrize("node_type", FIELDS)
def test_before_the_query(node_type: str) -> None:
    """No node is registered (SPEC D4.2), by an error that is a RuntimeError."""
    run = RunFactory().run("mia", "s")
    with pytest.raises(RuntimeError, match=r"Cannot register other node before registering query node\."):
        add(run, node_type, Q)
    assert run.version == 1


@pytest.mark.parametrize(
    ("error", "base"),
    [(RunStateError, RuntimeError), (NodeNotFoundError, ValueError), (NodeNotFoundError, KeyError),
     (UnknownAttributeError, AttributeError), (UnknownAttributeError, ValueError), (InvalidInputError, ValueError)],
)  # fmt: skip
def test_errors_are_what_the_seed_raises(error: type[Exception], base: type[Exception]) -> None:
    """Code that catches those of the seed's module catches ours."""
    assert issubclass(error, base)


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.register_query("q"), lambda run: table(run, Q), lambda run: run.modify_node(T, {"path": 1}),
        lambda run: run.remove_node(T), lambda run: run.add_edge(Q, T, "x"), lambda run: run.move_pointers(join=[T]),
        lambda run: run.restore_previous_runs(), lambda run: run.append_todo("s"), lambda run: run.pop_todo(),
        lambda run: run.return_step(1), lambda run: run.clear_steps(), lambda run: run.init_todolist(["s"]),
        lambda run: run.record_messages({"role": "user", "content": "x"}), lambda run: run.close(),
        lambda run: run.name_version("x"), lambda run: run.cleanup(), lambda run: run.rebase(len),
    ],
)  # fmt: skip
def test_views_cannot_be_changed(call: Call) -> None:
    """Neither one of the past nor a live one, which shows what comes."""
    run = short_run()
    past, live = run.at(3), run.readonly
    for view in (past, live, live.at(3)):
        with pytest.raises(ReadOnlyError):
            call(view)
    run.remove_node(T)

    assert (past.nodes(), past.version) == ([Q, "State(s)"], 3)
    assert (live.nodes(), live.version) == (run.nodes(), run.version)
