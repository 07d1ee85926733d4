"""Graphs do the same with a store as with LangGraph's own saver in memory, whatever is done with them."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

import refold
from refold.infrastructure.store import Store
from refold.langgraph import RefoldSaver

from .graphs import everything, said, thread

Step = tuple[str, int]
ACTIONS = ("say", "resume", "update", "edit", "empty", "branch", "again", "copy")
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 20)), min_size=1, max_size=5)
DURABILITIES = st.sampled_from(["sync", "async", "exit"])


def shown(state: Any) -> tuple[Any, ...]:
    """Return what two savers must have in common: all but the ids that are drawn by chance."""
    about = {name: value for name, value in state.metadata.items() if name in ("source", "step")}
    tasks = [(task.name, task.error, [one.value for one in task.interrupts], task.result) for task in state.tasks]
    return (state.values, state.next, about, tasks)


def history(graph: Any) -> list[Any]:
    """Return all states of the thread."""
    return [shown(state) for state in graph.get_state_history(thread())]


def run(graph: Any, given: Any, config: Any, durability: str) -> Any:
    """Run a graph; return its values, or its error."""
    try:
        result = graph.invoke(given, config, durability=durability)
    except Exception as error:
        return repr(error)
    return {name: value for name, value in result.items() if name != "__interrupt__"}


def take(graph: Any, step: Step, durability: str) -> Any:
    """Do one step, and return what came of it."""
    action, number = step
    states = list(graph.get_state_history(thread()))
    chosen = states[number % len(states)].config if states else thread()
    match action:
        case "say":
            return run(graph, said("hello", f"h{len(states)}"), thread(), durability)
        case "resume":
            return run(graph, Command(resume=number), thread(), durability)
        case "update":
            graph.update_state(thread(), {"notes": ["updated"]}, as_node="model")
        case "edit" if states and states[0].values.get("messages"):
            messages = states[0].values["messages"]
            gone, changed = messages[number % len(messages)], messages[-1]
            edits = [RemoveMessage(id=gone.id), HumanMessage("edited", id=changed.id)]
            graph.update_state(thread(), {"messages": edits[: 1 + (gone is not changed)]}, as_node="model")
        case "empty":
            graph.update_state(thread(), {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]}, as_node="model")
        case "branch":
            config = graph.update_state(chosen, {"notes": [f"branch {number}"]}, as_node="tools")
            return run(graph, None, config, durability)
        case "again":
            return run(graph, None, chosen, durability)
        case "copy" if states:
            graph.update_state(chosen, None, as_node="__copy__")
    return None


def outcomes(saver: Any, steps: Sequence[Step], durability: str, reopened: Any = None) -> list[Any]:
    """Return what comes of steps, and the history after each; `reopened` makes a new saver for each step."""
    found = []
    for step in [("say", 0), *steps]:
        graph = everything(reopened() if reopened else saver)
        found.append((step, take(graph, step, durability), history(graph)))
    return found


@settings(max_examples=15, deadline=None)
@given(STEPS, DURABILITIES)
def test_any_steps_do_the_same(steps: list[Step], durability: str) -> None:
    """Also where each step begins with a new saver, which knows nothing but the log."""
    expected = outcomes(InMemorySaver(), steps, durability)

    with refold.open(":memory:") as store:
        assert outcomes(RefoldSaver(store), steps, durability) == expected
        assert store.verify(processes=1).problems == ()
    with refold.open(":memory:") as store:
        assert outcomes(None, steps, durability, lambda: RefoldSaver(store)) == expected


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_database_does_the_same(store: Store, durability: str) -> None:
    """A question to a person, a graph inside, parallel tasks, edits, and two branches of the past."""
    steps: list[Step] = [("resume", 1), ("say", 0), ("edit", 2), ("resume", 1), ("branch", 7), ("again", 3), ("say", 1)]

    assert outcomes(RefoldSaver(store), steps, durability) == outcomes(InMemorySaver(), steps, durability)
    assert store.verify(processes=1).problems == ()


async def test_a_running_loop_does_the_same(store: Store) -> None:
    """The async calls of a graph use the async calls of the saver."""
    graphs = [everything(InMemorySaver()), everything(RefoldSaver(store))]

    for graph in graphs:
        await graph.ainvoke(said("hello", "h1"), thread())
        await graph.ainvoke(Command(resume="yes"), thread())
    expected, found = [[shown(one) async for one in graph.aget_state_history(thread())] for graph in graphs]
    assert found == expected
    assert (await graphs[1].aget_state(thread())).values["notes"][-3:] == ["work 0", "work 1", "work 2"]
