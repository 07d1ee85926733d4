"""A message history is a chat, and answers as LangChain's own does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import refold
from refold.domain.errors import DamagedError, InvalidInputError
from refold.infrastructure.frameworks.langgraph.messages import CONVERSATION
from refold.infrastructure.store import Store
from refold.langchain import RefoldChatMessageHistory
from refold.langgraph import RefoldSaver

from ..langgraph.graphs import LOOP, chatting, said, thread

# LangChain marks all histories as old, and keeps them.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
CALL = {"name": "track", "args": {"order": 7}, "id": "c1", "type": "tool_call"}
USED = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
MESSAGES: list[BaseMessage] = [
    HumanMessage("Where is my order?"),
    HumanMessage(
        [{"type": "text", "text": "See:"}, {"type": "image_url", "image_url": {"url": "https://x.org/y.png"}}]
    ),
    SystemMessage("Be brief.", id="s1"),
    AIMessage("", tool_calls=[CALL], usage_metadata=USED, response_metadata={"model_name": "m-1"}),
    ToolMessage("in Lyon", tool_call_id="c1", name="track", artifact={"raw": [1, 2]}),
    AIMessage("It is in Lyon.", id="a1", name="clerk", additional_kwargs={"beside": 1}),
]
STEPS = st.lists(st.lists(st.sampled_from(MESSAGES), max_size=4) | st.none(), max_size=6)


@given(STEPS)
def test_it_answers_as_langchain_does(steps: list[list[BaseMessage] | None]) -> None:
    """After any appends and clears both histories have equal messages, also for one who opens the chat anew."""
    with refold.open(":memory:") as store:
        ours, theirs = RefoldChatMessageHistory(store, "s1"), InMemoryChatMessageHistory()
        for step in steps:
            for history in (ours, theirs):
                history.clear() if step is None else history.add_messages(step)
            assert ours.messages == theirs.messages
            assert str(ours) == str(theirs)
        assert RefoldChatMessageHistory(store, "s1").messages == theirs.messages


async def test_the_async_side_on_every_store(store: Store) -> None:
    """Awaited calls do the same."""
    history = RefoldChatMessageHistory(store, "s1", user="mia")

    await history.aadd_messages(MESSAGES)
    assert await history.aget_messages() == MESSAGES
    await history.aclear()

    assert await history.aget_messages() == []
    assert len(history.chat.evicted_items()) == len(MESSAGES)


def test_messages_are_items_with_calls_outputs_tokens_and_an_actor(store: Store) -> None:
    """What LangChain adds, everything else can read."""
    RefoldChatMessageHistory(store, "s1").add_messages(MESSAGES)

    chat = store.chat("s1", create=False)
    assert [item.type for item in chat.items][3:5] == ["function_call", "function_call_output"]
    assert chat.to_openai_messages()[-1]["content"] == "It is in Lyon."
    assert sum(row.counted_in for row in store.usage()) == 9
    assert store.audit("s1")[-1].actor == "langchain"


def test_a_refusal_of_a_model_is_what_it_said() -> None:
    """As a block of the content, or beside it; another framework reads its text."""
    blocks: list[Any] = [{"type": "refusal", "refusal": "I cannot."}, {"type": "refusal", "refusal": ""}]
    refusals = [AIMessage(blocks), AIMessage("", additional_kwargs={"refusal": "No."})]
    with refold.open(":memory:") as store:
        RefoldChatMessageHistory(store, "s1").add_messages(refusals)

        history = RefoldChatMessageHistory(store, "s1")
        assert history.messages == refusals
        assert [message.content for message in history.chat.messages()] == [["I cannot."], "No."]


def test_it_reads_a_thread_of_langgraph_and_what_others_add(store: Store) -> None:
    """One conversation by three writers."""
    graph = chatting(RefoldSaver(store), lambda state: {"messages": [AIMessage(["Hello."], id="m1", name="clerk")]})
    graph.invoke(said("Good day.", "h1"), thread("s1"))
    history = RefoldChatMessageHistory(store, "s1")
    store.chat("s1").add_message("user", "And now?")

    assert history.messages == graph.get_state(thread("s1")).values["messages"]
    assert (history.messages[-1].type, history.messages[-1].content) == ("human", "And now?")


def test_a_graph_goes_on_with_a_history(store: Store) -> None:
    """The messages have no ids for LangChain, and always the same ones for the graph, which takes none of them out."""
    history = RefoldChatMessageHistory(store, "s1")
    history.add_messages(MESSAGES)
    before = store.chat("s1").items
    graph = chatting(RefoldSaver(store), lambda state: {"messages": [AIMessage("Hello.", id="m1")]})
    seen = graph.get_state(thread("s1")).values["messages"]
    graph.invoke(said("Good day.", "h1"), thread("s1"))

    assert store.chat("s1").items[: len(before)] == before
    assert graph.get_state(thread("s1")).values["messages"][: len(seen)] == seen
    assert store.chat("s1").evicted_items() == []
    assert history.messages[: len(MESSAGES)] == MESSAGES


@pytest.mark.parametrize(("value", "says"), [(object(), "pickle"), (LOOP, "nested too deeply")])
def test_a_message_that_cannot_be_saved_changes_nothing(value: Any, says: str) -> None:
    """None of the messages beside it is added, and nothing is pickled."""
    with refold.open(":memory:") as store:
        history = RefoldChatMessageHistory(store, "s1", serde=JsonPlusSerializer(pickle_fallback=True))
        odd: Any = ToolMessage("x", tool_call_id="c1", artifact=value)

        with pytest.raises(InvalidInputError, match=says):
            history.add_messages([MESSAGES[0], odd])

        assert history.messages == []


def test_a_message_of_a_type_that_nobody_knows_is_damage() -> None:
    """It is named, and not given to a model as another one."""
    with refold.open(":memory:") as store:
        CONVERSATION.add(store.chat("s1"), [{"type": "hologram", "content": "x", "id": "m1"}])

        with pytest.raises(DamagedError, match="'m1' is damaged: LangChain has no messages of type 'hologram'"):
            _ = RefoldChatMessageHistory(store, "s1").messages


def test_thinking_is_sent_to_no_other_provider() -> None:
    """A message of thinking and a call is the call, and one of thinking alone is apart; both come back whole."""
    thinking = {"type": "thinking", "thinking": "look", "signature": "sig"}
    use = {"type": "tool_use", "id": "c1", "name": "track", "input": {"order": 7}}
    messages = [MESSAGES[0], AIMessage([thinking, use], tool_calls=[CALL]), MESSAGES[4], AIMessage([thinking])]
    with refold.open(":memory:") as store:
        RefoldChatMessageHistory(store, "s1").add_messages(messages)

        sent = store.chat("s1").to_openai_messages()
        found = RefoldChatMessageHistory(store, "s1").messages

    assert [(one["role"], one.get("content")) for one in sent[1:]] == [("assistant", None), ("tool", "in Lyon")]
    assert [(one.type, one.content) for one in found] == [(one.type, one.content) for one in messages]
