"""Channels with messages besides the one of the chat: each is shown by a chat of its own, and stored once."""

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

import refold
from refold.infrastructure.frameworks.langgraph.values import Values, copied
from refold.infrastructure.store import Store
from refold.langgraph import RefoldSaver

from .graphs import put, thread, values

ASKED = [HumanMessage("Where is my order?", id="m1")]
NOTES = [AIMessage(f"note {number}", id=f"n{number}") for number in range(4)]


def texts(store: Store, chat_id: str) -> list[str]:
    """Return the texts that a chat shows."""
    return [message.text for message in store.chat(chat_id, create=False).messages()]


def test_a_second_channel_is_a_chat_beside_the_first(store: Store) -> None:
    """It has an item for each message, once, and every checkpoint has its own messages; others can read both."""
    saver, config = RefoldSaver(store), thread()
    for count in range(1, 5):
        config = put(saver, config, messages=ASKED, notes=NOTES[:count])
    config = put(saver, config, messages=ASKED, notes=[NOTES[0], *NOTES[2:]])

    assert texts(store, "t") == ["Where is my order?"]
    assert texts(store, "t/.notes") == ["note 0", "note 2", "note 3"]
    # It began, had four items, and one left.
    assert store.chat("t/.notes").version == 1 + 4 + 1
    lengths = [len(one.checkpoint["channel_values"]["notes"]) for one in RefoldSaver(store).list(thread())]
    assert lengths == [3, 4, 3, 2, 1]
    for reader in (saver, RefoldSaver(store)):
        assert values(reader, config) == {"messages": ASKED, "notes": [NOTES[0], *NOTES[2:]]}
    assert saver.threads() == ["t"]
    assert store.verify(processes=1).problems == ()


def test_a_channel_that_did_not_change_names_what_the_parent_has(store: Store) -> None:
    """Nothing is recorded in its chat."""
    saver = RefoldSaver(store)
    config = put(saver, thread(), messages=ASKED, notes=NOTES[:2])
    found = saver.get_tuple(config)
    assert found is not None
    checkpoint = found.checkpoint | {"id": empty_checkpoint()["id"]}
    checkpoint["channel_values"]["messages"] = [*ASKED, AIMessage("In Lyon.", id="m2")]
    checkpoint["channel_versions"]["messages"] = 2
    before = store.chat("t/.notes").version
    config = saver.put(found.config, checkpoint, {"source": "loop", "step": 1}, {"messages": 2})

    assert store.chat("t/.notes").version == before
    assert values(RefoldSaver(store), config)["notes"] == NOTES[:2]


def test_messages_that_a_checkpoint_does_not_name(store: Store) -> None:
    """They are those of its parent, with what others added since."""
    saver = RefoldSaver(store)
    found = saver.get_tuple(put(saver, thread(), messages=ASKED, count=1))
    assert found is not None
    store.chat("t").add_message("user", "And my money?")
    checkpoint = found.checkpoint | {"id": empty_checkpoint()["id"], "channel_values": {"count": 2}}
    checkpoint["channel_versions"]["count"] = 2
    config = saver.put(found.config, checkpoint, {"source": "loop", "step": 1}, {"count": 2})

    for reader in (saver, RefoldSaver(store)):
        shown = values(reader, config)
        assert ([one.text for one in shown["messages"]], shown["count"]) == (["Where is my order?", "And my money?"], 2)


@pytest.mark.parametrize("other", [[*ASKED, "text"], ["text"], [{"role": "user"}], "text", None, [], NOTES])
def test_something_else_in_the_place_of_messages(memory: Store, other: Any) -> None:
    """A graph may put it there and messages again: each checkpoint has what it was saved with."""
    saver, states = RefoldSaver(memory), [ASKED, other, ASKED]
    configs = [put(saver, thread(), messages=ASKED)]
    for state in states[1:]:
        configs.append(put(saver, configs[-1], messages=state))

    for reader in (saver, RefoldSaver(memory)):
        assert [values(reader, config)["messages"] for config in configs] == states
    assert texts(memory, "t") == ["Where is my order?"]


def test_a_deleted_thread_takes_its_channels_along(store: Store) -> None:
    """They leave the view; a new thread of this name begins without them, and a copy keeps them."""
    saver = RefoldSaver(store)
    put(saver, thread(), messages=ASKED, notes=NOTES)
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")

    assert texts(store, "t/.notes") == []
    assert values(saver, thread("copy"))["notes"] == NOTES
    config = put(saver, thread(), messages=ASKED, notes=NOTES[3:])
    assert values(RefoldSaver(store), config)["notes"] == NOTES[3:]


def added(state: list[AnyMessage], writes: Sequence[Any]) -> list[AnyMessage]:
    """Reduce writes of messages."""
    return [*state, *(message for write in writes for message in write)]


class Delta(TypedDict):
    """A state whose messages are saved as writes, and as a whole with every second one."""

    messages: Annotated[list[AnyMessage], DeltaChannel(added, snapshot_frequency=2)]


def test_messages_of_a_delta_channel_are_items_at_each_snapshot(store: Store) -> None:
    """Its snapshots are the messages of a chat, each stored once, and every state is that of LangGraph's own saver."""
    builder = StateGraph(Delta)
    builder.add_node("echo", lambda state: {"messages": [AIMessage("echo", id=f"e{len(state['messages'])}")]})
    builder.add_edge(START, "echo")
    histories: list[list[Any]] = []
    for saver in (InMemorySaver(), RefoldSaver(store), RefoldSaver(store)):
        graph: Any = builder.compile(checkpointer=saver)
        for number in range(3) if len(histories) < 2 else ():
            graph.invoke({"messages": [HumanMessage("hello", id=f"h{number}")]}, thread(), durability="sync")
        histories.append([one.values for one in graph.get_state_history(thread())])

    assert histories[0] == histories[1] == histories[2]
    ids = [item.id for item in store.chat("t/.messages").items]
    assert ids == [message.id for message in histories[0][0]["messages"]][: len(ids)]
    assert len(ids) >= 4
    assert store.chat("t/.messages").version == 1 + len(ids)


async def test_the_history_of_a_delta_channel_in_a_running_loop(store: Store) -> None:
    """It is the one that every other caller gets."""
    builder = StateGraph(Delta)
    builder.add_node("echo", lambda state: {"messages": [AIMessage("echo", id=f"e{len(state['messages'])}")]})
    builder.add_edge(START, "echo")
    saver = RefoldSaver(store)
    graph: Any = builder.compile(checkpointer=saver)
    for number in range(2):
        await graph.ainvoke({"messages": [HumanMessage("hello", id=f"h{number}")]}, thread(), durability="sync")
    config = (await graph.aget_state(thread())).config

    found = await saver.aget_delta_channel_history(config=config, channels=["messages"])
    assert found["messages"]
    assert found == saver.get_delta_channel_history(config=config, channels=["messages"])


def test_the_history_of_a_checkpoint_that_was_pruned(store: Store) -> None:
    """It is what it was before, up to this checkpoint."""
    saver = RefoldSaver(store)
    config = put(saver, thread(), log=["seed"])
    saver.put_writes(config, [("log", ["first"])], "task")
    pruned = put(saver, config, other=1)
    put(saver, pruned, other=2)
    saver.prune(["t"])

    assert saver.get_tuple(pruned) is None
    for reader in (saver, RefoldSaver(store)):
        found = reader.get_delta_channel_history(config=pruned, channels=["log"])
        assert found == {"log": {"writes": [("task", "log", ["first"])], "seed": ["seed"]}}


STEPS = st.lists(
    st.tuples(st.lists(st.integers(0, 3), unique=True), st.booleans(), st.integers(0, 9), st.booleans()), max_size=6
)


@settings(max_examples=25)
@given(STEPS)
def test_any_lists_in_any_branches_come_back(steps: list[tuple[list[int], bool, int, bool]]) -> None:
    """Whatever a channel holds, from whichever checkpoint a run goes on, in this process or a new one."""
    with refold.open(":memory:") as store:
        ours, theirs = RefoldSaver(store), InMemorySaver()
        made: list[tuple[str, Any]] = []
        for shown, goes_back, place, is_new in steps:
            saver = ours = RefoldSaver(store) if is_new else ours
            notes = [NOTES[number].model_copy(deep=True) for number in shown]
            parent = made[place % len(made)][0] if goes_back and made else made[-1][0] if made else None
            checkpoint = empty_checkpoint()
            channels = {"messages": ASKED, "notes": notes}
            checkpoint |= {"channel_values": channels, "channel_versions": {"messages": len(made), "notes": len(made)}}
            for one in (saver, theirs):
                config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
                if parent:
                    config["configurable"]["checkpoint_id"] = parent
                versions = {"messages": len(made), "notes": len(made)}
                one.put(
                    config, {**checkpoint, "channel_values": dict(channels)}, {"source": "loop", "step": 0}, versions
                )
            made.append((checkpoint["id"], [one.model_copy(deep=True) for one in notes]))
            if notes:
                # Whoever has them may change them afterwards.
                notes[0].content = "changed"

        for checkpoint_id, notes in made:
            named: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": checkpoint_id}}
            for one in (ours, RefoldSaver(store)):
                assert values(one, named)["notes"] == notes


def test_a_value_with_sorted_keys_is_stored_as_it_is() -> None:
    """Another one is a text, which keeps the order of its keys."""
    pack = Values(JsonPlusSerializer()).pack

    assert pack({"a": [{"b": 1, "c": 2}]}, "x") == {"json": {"a": [{"b": 1, "c": 2}]}}
    assert pack({"a": [{"c": 2, "b": 1}]}, "x") == {"text": '{"a":[{"c":2,"b":1}]}'}


def test_a_copy_shares_nothing_that_changes() -> None:
    """Also of what JSON does not have."""
    value = {"pair": ([1], {2}), "list": [[3], "four"]}

    copy = copied(value)
    assert copy == value
    copy["pair"][0].append(5)
    copy["list"][0].append(6)

    assert value == {"pair": ([1], {2}), "list": [[3], "four"]}


class Team(TypedDict):
    """Two channels of messages."""

    messages: Annotated[list[Any], add_messages]
    notes: Annotated[list[Any], add_messages]


def test_the_usage_of_an_answer_counts_once_in_a_thread(store: refold.Store) -> None:
    """Where it was saved first, however many agents within the graph, channels and turns have the message."""
    used = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}

    def agent(name: str) -> Any:
        def answered(state: Team) -> dict[str, Any]:
            about: Any = {"usage_metadata": used, "response_metadata": {"model_name": "m-1"}}
            said = AIMessage(f"{name} says", id=f"{name}{len(state['messages'])}", name=name, **about)
            return {"messages": [said], "notes": [said]}

        graph = StateGraph(Team)
        graph.add_node("answer", answered)
        graph.add_edge(START, "answer")
        return graph.compile(name=name)

    whole = StateGraph(Team)
    for name in ("research", "write"):
        whole.add_node(name, agent(name))
    whole.add_edge(START, "research")
    whole.add_edge("research", "write")
    store.chat("t", user="mia")
    for turn in (1, 2):
        # A saver of its own has read nothing yet.
        graph = whole.compile(checkpointer=RefoldSaver(store))
        graph.invoke({"messages": [HumanMessage("Where?", id=f"q{turn}")], "notes": []}, thread())
        counted = [(row.counted_in, row.counted_out) for row in store.usage(by=["model"]) if row.model]
        assert counted == [(turn * 200, turn * 20)]

    state = whole.compile(checkpointer=RefoldSaver(store)).get_state(thread())
    assert [one.usage_metadata for one in state.values["messages"] if one.type == "ai"] == [used] * 4
    # All chats of the thread have its user.
    assert {row.user for row in store.contexts()} == {"mia"}
    assert store.erase(user="mia", why="asked for", dry_run=False)
    assert store.search("Where") == []
