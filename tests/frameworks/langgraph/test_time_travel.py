"""A graph that goes on from the past: what a config says of it, and what the graphs inside go on from."""

import asyncio
import copy
import json
import pickle
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from refold.domain.errors import CheckpointSupersededError
from refold.infrastructure.store import Store
from refold.langgraph import RefoldSaver

from .graphs import InnerState, State, chatting, put, said, thread, values
from .test_saver import echo


class Wildcard(str):
    """A text that is equal to every other one."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)


NO_CONFIG: RunnableConfig = {}


def remembering(saver: RefoldSaver, *, asks: bool = False) -> Any:
    """Return a graph whose graph inside keeps its state from one run to the next, and may ask a person."""

    def inner(state: InnerState) -> dict[str, Any]:
        text = interrupt("what next?") if asks else f"turn {len(state['messages']) + 1}"
        return {"messages": [AIMessage(text, id=f"i{len(state['messages'])}")]}

    within = StateGraph(InnerState).add_node("inner", inner).add_edge(START, "inner").compile(checkpointer=True)

    def within_only(state: State) -> dict[str, Any]:
        told = within.invoke({"messages": [], "depth": 0})["messages"]
        return {"notes": [str(message.content) for message in told]}

    graph = StateGraph(State).add_node("begin", lambda _: {"turns": 1}).add_node("within", within_only)
    return graph.add_edge(START, "begin").add_edge("begin", "within").compile(checkpointer=saver)


def before_the_inner_graph(graph: Any) -> list[Any]:
    """Return the states in which the graph inside is next, the oldest first."""
    return [state for state in graph.get_state_history(thread()) if state.next == ("within",)][::-1]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_graph_inside_runs_again_from_what_it_was(store: Store, durability: str) -> None:
    """In a run from a checkpoint before its first one it has no state; the run after that goes on with the new one."""
    graph = remembering(RefoldSaver(store))
    for _ in range(2):
        graph.invoke({"notes": []}, thread(), durability="sync")
    first, second = before_the_inner_graph(graph)

    assert graph.invoke(None, second.config, durability=durability)["notes"] == ["turn 1", "turn 1", "turn 2"]
    assert graph.invoke(None, first.config, durability=durability)["notes"] == ["turn 1"]
    assert graph.invoke({"notes": []}, thread(), durability=durability)["notes"] == ["turn 1", "turn 1", "turn 2"]
    assert asyncio.run(graph.ainvoke(None, first.config, durability=durability))["notes"] == ["turn 1"]


def test_a_question_of_a_graph_inside_is_asked_anew(store: Store) -> None:
    """The answer to the question that a replay asks is the one that counts."""
    graph = remembering(RefoldSaver(store), asks=True)
    graph.invoke({"notes": []}, thread())
    graph.invoke(Command(resume="old"), thread())
    (asked,) = before_the_inner_graph(graph)

    assert [one.value for one in graph.invoke(None, asked.config)["__interrupt__"]] == ["what next?"]
    assert graph.invoke(Command(resume="new"), thread())["notes"] == ["new"]


def test_a_replay_of_a_graph_inside_can_be_overtaken(store: Store) -> None:
    """Only its first checkpoint has no other before it."""
    saver, inner = RefoldSaver(store), {"thread_id": "t", "checkpoint_ns": "within"}
    put(saver, {"configurable": inner}, depth=1)
    replayed: Any = {"configurable": {**inner, "__pregel_replay_state": object()}}
    begun = put(saver, replayed, depth=2)
    put(saver, begun, depth=3)

    with pytest.raises(CheckpointSupersededError):
        put(saver, {"configurable": {**replayed["configurable"], **begun["configurable"]}}, depth=4)


def test_a_config_is_a_plain_one(store: Store) -> None:
    """What the saver notes in a config for the run is nothing that others see, compare, store or send."""

    def noting(state: State, config: RunnableConfig = NO_CONFIG) -> dict[str, Any]:
        of_thread = config["configurable"]["thread_id"]
        return {**echo(state), "notes": [of_thread], "turns": 1}

    graph = chatting(RefoldSaver(store), noting)
    graph.invoke(said("hello", "h1"), thread())
    config = graph.get_state(thread()).config
    given = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": config["configurable"]["checkpoint_id"]}

    assert config == {"configurable": given}
    assert config["configurable"]["thread_id"] == Wildcard()
    copies = [json.loads(json.dumps(config)), pickle.loads(pickle.dumps(config)), copy.deepcopy(config)]
    assert [(one, type(one["configurable"]["thread_id"])) for one in copies] == [(config, str)] * 3
    assert [state.config["configurable"].keys() for state in graph.get_state_history(thread())] == [given.keys()] * 3
    graph.invoke(said("more", "h2"), config)
    assert [type(note) for note in graph.get_state(thread()).values["notes"]] == [str, str]
    saved = store.chat("t").saved_states.last("langgraph", "value/notes")
    assert saved
    assert saved.value == {"json": ["t", "t"]}


def test_checkpoints_are_listed_by_their_time(store: Store) -> None:
    """Those of all namespaces and threads together, the newest first."""
    saver = RefoldSaver(store)
    within = {"thread_id": "t", "checkpoint_ns": "within"}
    configs: list[Any] = [{"configurable": one} for one in ({"thread_id": "t"}, within, {"thread_id": "a"})]
    made: list[tuple[str, str]] = []
    for number in range(2):
        for place, config in enumerate(configs):
            configs[place] = put(saver, config, n=number)
            thread_id = configs[place]["configurable"]["thread_id"]
            made.insert(0, (thread_id, configs[place]["configurable"]["checkpoint_id"]))

    assert [one.config["configurable"]["checkpoint_id"] for one in saver.list(None)] == [made_id for _, made_id in made]
    of_thread = [made_id for thread_id, made_id in made if thread_id == "t"]
    assert [one.config["configurable"]["checkpoint_id"] for one in saver.list(thread())] == of_thread
    assert [one.config["configurable"]["checkpoint_id"] for one in saver.list(None, limit=1)] == [made[0][1]]


def test_a_checkpoint_that_is_its_own_forerunner(store: Store) -> None:
    """A program that saves one again, behind one that follows on it, still gets an answer."""
    saver = RefoldSaver(store)
    first = put(saver, thread(), n=1)
    second = put(saver, first, n=2)
    found = saver.get_tuple(first)
    assert found is not None
    saver.put(second, found.checkpoint, found.metadata, {})

    history = saver.get_delta_channel_history(config=second, channels=["notes"])
    assert history["notes"]["writes"] == []
    assert saver.get_delta_channel_history(config=first, channels=["notes"])["notes"]["writes"] == []


def test_a_checkpoint_that_is_saved_again(memory: Store) -> None:
    """With other metadata, as by a run whose answer was lost: it is there once, and so are those before it."""
    saver = RefoldSaver(memory)
    first = put(saver, thread(), n=1)
    second = put(saver, first, n=2)
    found = saver.get_tuple(second)
    assert found is not None
    versions = found.checkpoint["channel_versions"]
    saver.put(first, found.checkpoint, {"source": "loop", "step": 7}, versions)

    for one in (saver, RefoldSaver(memory)):
        listed = [(each.checkpoint["channel_values"]["n"], each.metadata.get("step")) for each in one.list(thread())]
        assert listed == [(2, 7), (1, 0)]


def test_an_older_checkpoint_that_is_saved_again(store: Store) -> None:
    """It is there once, with what was saved last, as in LangGraph's own savers; the newest one stays the newest."""
    own = InMemorySaver()
    answers = []
    for saver in (own, RefoldSaver(store)):
        configs = [thread()]
        for number in range(4):
            configs.append(put(saver, configs[-1], n=number, messages=[HumanMessage(f"m{number}", id=f"m{number}")]))
        for number in (2, 1, 4):
            found = saver.get_tuple(configs[number])
            assert found is not None
            new = {"n": 9 + number, "messages": 9 + number}
            channels = {"n": -number, "messages": [HumanMessage("new", id="new")]}
            again = {**found.checkpoint, "channel_values": channels, "channel_versions": new}
            before = {"configurable": {"checkpoint_ns": "", **configs[number - 1]["configurable"]}}
            saver.put(before, again, {"source": "fork", "step": 9}, new)
        for reader in (saver, *([RefoldSaver(store)] if saver is not own else [])):
            listed = [(one.checkpoint["channel_values"], one.metadata) for one in reader.list(thread())]
            by_id = [values(reader, config) for config in configs[1:]]
            answers.append((listed, by_id, values(reader, thread())))

    assert [shown["n"] for shown in answers[0][1]] == [-1, -2, 2, -4]
    assert answers[1:] == [answers[0], answers[0]]
