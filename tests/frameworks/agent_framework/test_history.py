"""The history of a session is a chat, and answers as the framework's own provider does."""

import asyncio
from itertools import count
from typing import Any

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    tool,
)
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.agent_framework import RefoldHistoryProvider
from refold.domain.errors import InvalidInputError
from refold.infrastructure.store import Store

MESSAGES = [
    Message("user", ["Where is my order?"]),
    Message("user", ["a", Content.from_uri("https://x.org/y.png", media_type="image/png"), "b"], author_name="mia"),
    Message("user", [Content.from_data(b"abc", "image/png"), Content.from_data(b"abc", "audio/wav")]),
    Message("assistant", [Content.from_text_reasoning(text="look it up")]),
    Message("assistant", ["Wait.", Content.from_function_call("c1", "track", arguments='{"order": 7}')]),
    Message("assistant", [Content.from_function_call("c2", "track", arguments={"order": 8})]),
    Message("tool", [Content.from_function_result("c1", result="in Lyon")]),
    Message("tool", [Content.from_function_result("c2", result={"no": 1}, exception="ValueError")]),
    Message("assistant", ["It is in Lyon."], additional_properties={"seen": True}),
    Message("assistant", ["Anything else?"], author_name="clerk"),
    Message("system", []),
    Message("developer", ["Be brief."]),
]


def with_id(message: Message, number: int) -> Message:
    """Return a copy with an id of its own: the framework's own provider leaves out what it has already."""
    return Message.from_dict({**message.to_dict(), "message_id": f"m{number}"})


@given(st.lists(st.lists(st.sampled_from(MESSAGES), max_size=4), max_size=5))
def test_it_answers_as_the_framework_does(batches: list[list[Message]]) -> None:
    """Every message comes back as it was, whatever is in it."""

    async def compared() -> None:
        numbers, state = count(1), dict[str, Any]()
        with refold.open(":memory:") as store:
            ours, theirs = RefoldHistoryProvider(store), InMemoryHistoryProvider()
            for batch in batches:
                fresh = [with_id(message, next(numbers)) for message in batch]
                for provider in (ours, theirs):
                    await provider.save_messages("s1", fresh, state=state)
            found = [await provider.get_messages("s1", state=state) for provider in (ours, theirs)]
            assert [one.to_dict() for one in found[0]] == [one.to_dict() for one in found[1]]

    asyncio.run(compared())


@given(st.lists(st.sampled_from(MESSAGES), max_size=4), st.lists(st.integers(0, 4), max_size=4), st.booleans())
def test_a_history_that_is_given_again(history: list[Message], starts: list[int], has_ids: bool) -> None:
    """What an agent is given a second time is not kept a second time, by the framework's own rule."""

    async def compared() -> None:
        state, whole = dict[str, Any](), list[Message]()
        with refold.open(":memory:") as store:
            ours, theirs = RefoldHistoryProvider(store), InMemoryHistoryProvider()
            for number, start in enumerate(starts):
                fresh = [with_id(one, 10 * number + place) if has_ids else one for place, one in enumerate(history)]
                for provider in (ours, theirs):
                    await provider.save_messages("s1", [*whole[start:], *fresh], state=state)
                whole += fresh
            found = [await provider.get_messages("s1", state=state) for provider in (ours, theirs)]
            assert [one.to_dict() for one in found[0]] == [one.to_dict() for one in found[1]]

    asyncio.run(compared())


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):  # type: ignore[misc]
    """A client that calls the tool once, then answers; it remembers what it was sent."""

    sent: list[list[str]]

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def answer() -> ChatResponse:
            self.sent.append([message.text for message in messages])
            if not any(content.type == "function_result" for message in messages for content in message.contents):
                called = Content.from_function_call("c1", "track", arguments='{"order": 7}')
                return ChatResponse(messages=[Message("assistant", [called])])
            return ChatResponse(messages=[Message("assistant", ["It is in Lyon."])])

        return answer()


@tool
def track(order: int) -> str:
    """Say where an order is."""
    return f"{order}: Lyon"


async def test_an_agent_keeps_its_loop(store: Store) -> None:
    """A run's messages are items; the next run has them, and what a person added in between."""
    client = Scripted()
    client.sent = []
    agent = Agent(client=client, tools=[track], context_providers=[RefoldHistoryProvider(store)])
    session = agent.create_session(session_id="support-42")

    first = await agent.run("Where is my order?", session=session)
    chat = store.chat("support-42")
    chat.add_message("user", "It is urgent.")
    await agent.run("Please hurry.", session=session)

    assert first.text == "It is in Lyon."
    kinds = ["message", "function_call", "function_call_output", "message", "message", "message", "message"]
    chat.refresh()
    assert [item.type for item in chat.items] == kinds
    assert client.sent[-1][-2:] == ["It is urgent.", "Please hurry."]
    assert chat.to_anthropic_messages()[0][1]["content"][0]["name"] == "track"
    called, answered = chat.to_dict()["items"][1:3]
    assert (called["arguments"], answered["name"]) == ('{"order": 7}', "track")
    assert "agent_framework" in {entry.actor for entry in store.audit("support-42")}


async def test_a_session_needs_an_id_and_a_chat_is_made_by_the_first_message() -> None:
    """A question makes nothing, and a bad message changes nothing."""
    with refold.open(":memory:") as store:
        provider = RefoldHistoryProvider(store)

        assert await provider.get_messages("s1") == []
        with pytest.raises(InvalidInputError, match="no id"):
            await provider.save_messages(None, MESSAGES)
        with pytest.raises(InvalidInputError, match="role"):
            await provider.save_messages("s1", [MESSAGES[0], Message("narrator", ["x"])])
        loop: list[Any] = []
        loop.append(loop)
        for odd in (
            Message("user", ["x"], additional_properties={"odd": loop}),
            Message("assistant", [Content.from_function_call("c1", "track", arguments={"odd": loop})]),
        ):
            with pytest.raises(InvalidInputError, match="as JSON"):
                await provider.save_messages("s1", [MESSAGES[0], odd])
        assert store.contexts() == []


async def test_the_author_of_an_answer_is_its_agent(store: refold.Store) -> None:
    """Of the answer alone: who asks is no agent. An agent of Refold's is the author of what it said."""
    provider = RefoldHistoryProvider(store)
    said = [Message("user", ["Where?"], author_name="mia"), Message("assistant", ["In Lyon."], author_name="clerk")]
    await provider.save_messages("s1", said)
    store.chat("s1").add_message("assistant", "It is on its way.", agent_id="helper")

    assert [item.agent_id for item in store.chat("s1").items] == [None, "clerk", "helper"]
    assert [one.author_name for one in await provider.get_messages("s1")] == ["mia", "clerk", "helper"]
