"""A chat store answers as LlamaIndex's own on SQL does, and its keys are chats."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

import refold
from refold.chat import FunctionCall
from refold.domain.chat.rules.commands import EvictItems
from refold.domain.errors import InvalidInputError
from refold.infrastructure.store import Store
from refold.llama_index import RefoldChatStore

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
STATUSES = [ACTIVE, ARCHIVED, None]
CALL = ToolCallBlock(tool_call_id="c1", tool_name="track", tool_kwargs={"order": 7})
OLD_CALL = {"id": "c2", "type": "function", "function": {"name": "track", "arguments": "{}"}}
MESSAGES = [
    ChatMessage("Where is my order?"),
    ChatMessage(
        role="user", blocks=[TextBlock(text="See:"), ImageBlock(url="https://x.org/y.png"), TextBlock(text="b")]
    ),
    ChatMessage(role="user", blocks=[ImageBlock(image=b"abc", image_mimetype="image/png")]),
    ChatMessage(role="user", blocks=[DocumentBlock(data=b"abc", document_mimetype="text/plain")]),
    ChatMessage(role="assistant", blocks=[ThinkingBlock(content="look it up"), TextBlock(text="Wait."), CALL]),
    ChatMessage("", role="assistant", additional_kwargs={"tool_calls": [OLD_CALL]}),
    ChatMessage("in Lyon", role="tool", additional_kwargs={"tool_call_id": "c1", "name": "track"}),
    ChatMessage("It is in Lyon.", role="chatbot"),
    ChatMessage(role="system", blocks=[]),
    ChatMessage("It is in Lyon.", role="model"),
]
SOME = st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=3)
STATUS = st.sampled_from([ACTIVE, ARCHIVED])
COUNT = st.integers(0, 3)
STEP = st.one_of(
    st.tuples(st.just("add_messages"), SOME, STATUS),
    st.tuples(st.just("set_messages"), SOME, STATUS),
    st.tuples(st.just("delete_messages"), st.sampled_from(STATUSES)),
    st.tuples(st.just("delete_oldest_messages"), COUNT),
    st.tuples(st.just("archive_oldest_messages"), COUNT),
)
STEPS = st.lists(st.tuples(st.sampled_from(["k1", "k.2/%"]), STEP), max_size=8)


def text_of(item: Any) -> str:
    """Return the text of a message in the chat."""
    return item.content if isinstance(item.content, str) else "".join(item.content)


async def state_of(store: AsyncDBChatStore) -> Any:
    """Return everything that a store answers."""
    found: list[Any] = [sorted(await store.get_keys())]
    for key in ("k1", "k.2/%"):
        for status in STATUSES:
            found += [await store.get_messages(key, status), await store.count_messages(key, status)]
            found.append(await store.get_messages(key, status, limit=2, offset=1))
    return found


@settings(deadline=None, max_examples=60)
@given(STEPS)
def test_it_answers_as_llama_index_does(steps: list[tuple[str, tuple[str, Any]]]) -> None:
    """Whatever is added, replaced, archived and deleted, both say the same, and return the same."""

    async def compared() -> None:
        theirs = SQLAlchemyChatStore("messages")
        with refold.open(":memory:") as opened:
            ours = RefoldChatStore(opened)
            for key, (name, *arguments) in steps:
                calls: list[Callable[..., Awaitable[Any]]] = [getattr(one, name) for one in (ours, theirs)]
                returned = [await call(key, *arguments) for call in calls]
                assert returned[0] == returned[1]
                assert await state_of(ours) == await state_of(theirs)
        if theirs._async_engine is not None:
            await theirs._async_engine.dispose()

    asyncio.run(compared())


async def test_a_memory_archives_what_it_flushes(store: Store) -> None:
    """The memory of LlamaIndex works on it; what it archives leaves the view, and stays in the past."""
    memory = Memory.from_defaults(
        session_id="s1", chat_store=RefoldChatStore(store), token_limit=30, chat_history_token_ratio=0.5
    )
    for number in range(6):
        await memory.aput(ChatMessage(f"Question {number}, and some more words about it.", role="user"))
        await memory.aput(ChatMessage(f"Answer {number}, and some more words about it.", role="assistant"))

    chat = store.chat("s1", create=False)
    archived = await memory.aget_all(status=ARCHIVED)
    assert len(archived) + len(chat.items) == 12
    assert [text_of(one.item) for one in chat.evicted_items()] == [one.content for one in archived]
    assert {one.reason for one in chat.evicted_items()} == {"archived"}
    assert (await memory.aget_all())[-1].content == "Answer 5, and some more words about it."


async def test_a_pinned_message_is_not_archived(store: Store) -> None:
    """A memory that is over its limit goes on, and leaves it where it is."""
    ours = RefoldChatStore(store)
    memory = Memory.from_defaults(session_id="s1", chat_store=ours, token_limit=30, chat_history_token_ratio=0.5)
    await memory.aput(ChatMessage("The order in question is number 7.", role="user"))
    chat = store.chat("s1", create=False)
    chat.pin([chat.items[0].id])
    for number in range(6):
        await memory.aput(ChatMessage(f"Answer {number}, and some more words about it.", role="assistant"))
        await memory.aput(ChatMessage(f"Question {number}, and some more words about it.", role="user"))

    assert (await ours.get_messages("s1"))[0].content == "The order in question is number 7."
    assert await ours.count_messages("s1", ARCHIVED) > 6
    assert len(await ours.archive_oldest_messages("s1", 1)) == 0


async def test_messages_are_items_and_others_may_change_them(store: Store) -> None:
    """What another program restores, evicts or adds is so for LlamaIndex, too."""
    ours = RefoldChatStore(store)
    await ours.add_messages("s1", [MESSAGES[0], MESSAGES[4], MESSAGES[6], MESSAGES[7]])
    await ours.archive_oldest_messages("s1", 1)
    chat = store.chat("s1")

    assert [item.type for item in chat.items] == ["message", "function_call", "function_call_output", "message"]
    assert chat.to_openai_messages()[0]["tool_calls"][0]["function"]["name"] == "track"
    chat.restore()
    chat.add_message("user", "And now?")
    chat.evict([chat.items[-2].id], reason="a person did")

    active = await ours.get_messages("s1")
    assert [one.content for one in active] == ["Where is my order?", "Wait.", "in Lyon", "And now?"]
    assert await ours.count_messages("s1", None) == 4
    assert {entry.actor for entry in store.audit("s1")} >= {"llama_index"}


@pytest.mark.parametrize("blocks", [[], [ToolCallBlock(tool_call_id="c2", tool_name="track", tool_kwargs={})]])
async def test_calls_beside_the_blocks_are_items(store: Store, blocks: list[ToolCallBlock]) -> None:
    """Some clients of models keep calls there, some in both places: it is one call, and its output is sent with it."""
    ours = RefoldChatStore(store)
    odd = [None, {"id": 3, "function": {"name": 7}}, "call"]
    asked = ChatMessage(role="assistant", blocks=blocks, additional_kwargs={"tool_calls": [OLD_CALL, *odd]})
    answered = ChatMessage("in Lyon", role="tool", additional_kwargs={"tool_call_id": "c2"})
    await ours.add_messages("s1", [asked, answered])

    assert [item.type for item in store.chat("s1").items] == ["function_call", "function_call_output"]
    assert [one["role"] for one in store.chat("s1").to_openai_messages()] == ["assistant", "tool"]
    assert await ours.get_messages("s1") == [asked, answered]


async def test_only_a_model_calls(memory: Store) -> None:
    """What is beside the message of a user is no call; and a call without arguments has an empty object."""
    beside = {"tool_calls": [{"id": "c3", "function": {"name": "ping", "arguments": {}}}]}
    messages = [ChatMessage("t", role=role, additional_kwargs=beside) for role in ("user", "assistant")]
    await RefoldChatStore(memory).add_messages("s1", messages)

    _, said, called = memory.chat("s1").items
    assert isinstance(called, FunctionCall)
    assert (said.text, called.arguments) == ("t", "{}")


@pytest.mark.parametrize("role", ["assistant", "chatbot", "model"])
async def test_a_model_has_several_names(role: str) -> None:
    """Other frameworks are told that the assistant said it."""
    with refold.open(":memory:") as store:
        await RefoldChatStore(store).add_message("s1", ChatMessage("In Lyon.", role=role))

        assert [message["role"] for message in store.chat("s1").to_openai_messages()] == ["assistant"]


async def test_one_message_is_deleted_by_its_place() -> None:
    """An index that nothing is at deletes nothing, and makes no chat."""
    with refold.open(":memory:") as store:
        ours = RefoldChatStore(store)
        assert await ours.delete_message("s1", 0) is None
        assert store.contexts() == []
        await ours.add_messages("s1", [MESSAGES[0], MESSAGES[7]])

        assert await ours.delete_message("s1", 1) == MESSAGES[7]
        assert await ours.delete_message("s1", 1) is None
        assert await ours.delete_message("s1", -1) is None
        assert await ours.get_messages("s1") == [MESSAGES[0]]


@pytest.mark.parametrize("reason", ["deleted", "a person did"])
async def test_what_left_stays_out_when_its_partner_is_deleted(store: Store, reason: str) -> None:
    """A call that is deleted from the archive does not bring back its output, which left by itself."""
    ours = RefoldChatStore(store)
    await ours.add_messages("s1", [MESSAGES[4], MESSAGES[6], MESSAGES[7]])
    await ours.archive_oldest_messages("s1", 1)
    chat = store.chat("s1")
    output = chat.items[0].id
    if reason == "deleted":
        assert await ours.delete_message("s1", 0) == MESSAGES[6]
    else:
        chat._record(EvictItems(chat.stream_id, (output,), reason, partners=False))

    await ours.delete_messages("s1", ARCHIVED)

    assert await ours.get_messages("s1", None) == [MESSAGES[7]]
    chat.refresh()
    assert {one.item.id: one.reason for one in chat.evicted_items()}[output] == reason


@pytest.mark.parametrize("value", [object(), {"\ud800": 1}])
@pytest.mark.parametrize("name", ["add_messages", "set_messages"])
async def test_a_message_that_cannot_be_kept_changes_nothing(name: str, value: Any) -> None:
    """Neither is anything replaced, nor is half of it added."""
    with refold.open(":memory:") as store:
        ours = RefoldChatStore(store)
        await ours.add_message("s1", MESSAGES[0])
        odd = ChatMessage("x", additional_kwargs={"odd": value})

        with pytest.raises(InvalidInputError, match="as JSON"):
            await getattr(ours, name)("s1", [MESSAGES[1], odd])

        assert await ours.get_messages("s1") == [MESSAGES[0]]


async def test_what_keeps_no_message_makes_no_chat(store: Store) -> None:
    """Neither messages of which one is refused, nor none at all."""
    ours = RefoldChatStore(store)
    good, bad = ChatMessage("fine"), ChatMessage("half: \ud800")
    for call in (ours.add_messages, ours.set_messages):
        with pytest.raises(InvalidInputError, match="lone surrogate"):
            await call("mia", [good, bad])
        await call("mia", [])
    assert store.contexts() == []
    await ours.add_message("mia", good)
    await ours.set_messages("mia", [])
    assert await ours.get_messages("mia") == []
