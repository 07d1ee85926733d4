"""What the seed's module gave where nodes are changed and removed, and steps queued: held, or deviated from."""

import logging
from collections.abc import Callable

import pytest

from refold.domain.errors import InvalidInputError
from refold.domain.trajectory.nodes import NodeNotFoundError, RunStateError, UnknownAttributeError
from refold.domain.trajectory.run import Run

from .registering import action, asked_run, edges, new_run, pointers, state, table, unchanged

# Modifying


def test_history() -> None:
    """D8.1, D8.2: what the changed attributes had before; numbers are numbers (D8.8, repaired)."""
    run, query = asked_run()
    name = table(run, query)
    run.modify_node(name, {"description": "d1"})
    run.modify_node(name, {"description": "d2", "path": "q"})

    assert run.node(name).history == {0: {"description": "d0"}, 1: {"description": "d1", "path": "p"}}
    assert run.node(name).description == "d2"


@pytest.mark.parametrize("name", ["zzz", "label", "run_id", "history", "created_at", "node_type"])
def test_an_attribute_that_cannot_be_changed(name: str) -> None:
    """D8.3, D8.6, repaired: it is an AttributeError, and nothing was changed, the other attributes neither."""
    run, query = asked_run()
    node = table(run, query)
    known = "it has description, path; others are given when a node is registered"
    message = f"Table(orders) has no attribute {name!r} that can be changed: {known}"

    unchanged(run, lambda: run.modify_node(node, {"description": "d1", name: "x"}), UnknownAttributeError, message)
    assert issubclass(UnknownAttributeError, AttributeError)


def test_another_type_of_value(caplog: pytest.LogCaptureFixture) -> None:
    """D8.4: it is taken, and the log tells."""
    run, query = asked_run()
    with caplog.at_level(logging.WARNING):
        run.modify_node(table(run, query), {"path": 5})

    assert run.node("Table(orders)").path == 5
    assert caplog.messages == ["Table(orders): path becomes a int, and was a str"]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("T", InvalidInputError, "Graph node label 'T' has illegal format: `Type(label)` is right."),
        ("Table(zz)", NodeNotFoundError, "Current context does not have IR with label 'zz' of type 'Table'."),
        ("Zed(x)", NodeNotFoundError, "Current context does not have IR of type 'Zed'."),
    ],
)
def test_names_of_nothing(name: str, error: type[Exception], message: str) -> None:
    """D2.7, D8.9, D8.11: they are ValueErrors, in removing too (repaired)."""
    run, _ = asked_run()
    for call in (lambda: run.node(name), lambda: run.modify_node(name, {}), lambda: run.remove_node(name)):
        unchanged(run, call, error, message)

    assert issubclass(error, ValueError)


def test_no_changes() -> None:
    """D8.5, repaired: they are no version."""
    run, query = asked_run()
    before = run.version
    run.modify_node(query, {})

    assert (run.version, run.node(query).history) == (before, {})


def test_old_values_are_copied() -> None:
    """D8.7, repaired: history is what was, whatever becomes of the values."""
    run, query = asked_run()
    files = ["a"]
    run.modify_node(query, {"additional_files": files})
    files.append("b")
    run.modify_node(query, {"additional_files": []})

    assert run.node(query).history[1] == {"additional_files": ["a"]}


# Removing


def test_removing_an_end() -> None:
    """D6.7: its predecessors are pointers in its place, and its number does not come again."""
    run, query = asked_run()
    first = action(run, query)
    run.remove_node(state(run, first))

    assert pointers(run) == [first]
    assert state(run, first) == "State(state00001)"


def test_removing_what_lies_between() -> None:
    """D8.10: what came of it stays, without a way to it; that it was there is not forgotten (repaired)."""
    run, query = asked_run()
    first = action(run, query)
    last = state(run, first)
    run.remove_node(first, reason="wrong")

    assert (pointers(run), run.nodes(), edges(run)) == ([last], [query, last], [])
    assert [version.kind for version in run.versions(first)] == ["registered", "removed"]
    run.remove_node(last)
    assert pointers(run) == []


def test_removing_the_query() -> None:
    """D8.11, repaired: it works, and there is no query then; another one may come."""
    run, query = asked_run()
    run.remove_node(query)

    assert (run.nodes(), pointers(run), run.initial, run.session_root) == ([], [], None, None)
    assert run.register_query("q") == "Query(query00001)"


# Queues


def test_steps_in_order() -> None:
    """D11.1, D11.5, D11.6: first in, first out; `todo` is the default; a step without parameters has `{}`."""
    run = new_run()
    run.init_todolist([{"name": "p"}, {"name": "p2", "params": {"a": 1}}])
    run.append_todo("t")
    waiting = run.steps("todo")

    assert [run.pop_todo("pre") for _ in range(3)] == [
        {"name": "p", "params": {}}, {"name": "p2", "params": {"a": 1}}, None,
    ]  # fmt: skip
    assert run.pop_todo() == waiting[0] == {"name": "t", "params": {}}


def test_filling_over_capacity() -> None:
    """D11.4, repaired: what has no room is named, and recorded as refused."""
    run = new_run()
    run.steps_max = 2

    assert run.init_todolist(["p", "p2", "p3"]) == ["p3"]
    assert [step["name"] for step in run.steps("pre")] == ["p", "p2"]
    assert type(run.recorded_events()[-1].event).__name__ == "StepRefused"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda run: run.init_todolist(), RunStateError, "requires pre_workflow or post_workflow definitions"),
        (lambda run: run.init_todolist([{"params": {}}]), InvalidInputError, "one under 'name', not {'params': {}}"),
        (lambda run: run.init_todolist([None]), InvalidInputError, "one under 'name', not None"),
        (lambda run: run.append_todo("a", list_type="zz"), InvalidInputError, "Invalid list type: zz"),
        (lambda run: run.pop_todo("zz"), InvalidInputError, "Invalid list type: zz"),
    ],
)
def test_refused_steps(call: Callable[[Run], object], error: type[Exception], message: str) -> None:
    """D11.2, D11.3; D11.8, repaired: what is no step is none."""
    run = new_run()
    with pytest.raises(error, match=message):
        call(run)

    assert run.version == 1


def test_parameters_are_copied() -> None:
    """D11.7, repaired: a step that is changed does not change the definition, nor the other way round."""
    run = new_run()
    definition = {"name": "p", "params": {"a": 1}}
    run.init_todolist([definition])
    definition["params"] = {"a": 2}
    taken = run.pop_todo("pre")
    assert taken is not None
    taken["params"]["a"] = 3

    assert run.recorded_events()[2].event.params == b'{"a":1}'
    assert definition == {"name": "p", "params": {"a": 2}}
