"""Who does what a framework saves: the caller's actor, else the one that the adapter was given, else its name."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from pydantic_ai.messages import ModelRequest, UserPromptPart

import refold
from refold.langchain import RefoldChatMessageHistory
from refold.langgraph import RefoldSaver
from refold.openai_agents import RefoldSession
from refold.pydantic_ai import record

from ..langgraph.graphs import chatting, said, thread


async def by_langgraph(store: refold.Store, **named: Any) -> None:
    """Run a graph on the thread."""
    graph = chatting(RefoldSaver(store, **named), lambda _: said("In Lyon.", "a1"))
    await graph.ainvoke(said("Where?", "q1"), thread("c"))


async def by_openai_agents(store: refold.Store, **named: Any) -> None:
    """Add an entry to the session."""
    actor = named.get("actor")
    session = RefoldSession(store, "c", actor=(lambda _: actor) if actor else None)
    await session.add_items([{"role": "user", "content": "Where?"}])


async def by_langchain(store: refold.Store, **named: Any) -> None:
    """Add a message to the history."""
    await RefoldChatMessageHistory(store, "c", **named).aadd_messages([HumanMessage("Where?")])


def test_what_is_recorded_in_a_chat_has_an_actor() -> None:
    """The agent of the chat, or else the name of the framework."""
    messages = [ModelRequest([UserPromptPart("Where?")])]
    with refold.open(":memory:", acting="required") as store:
        with refold.acting(actor="mia"):
            chats = store.chat("c"), store.chat("d", agent="clerk")
        for chat in chats:
            record(chat, messages)

        assert [chat.history()[-1].meta.actor for chat in chats] == ["pydantic_ai", "clerk"]


@pytest.mark.parametrize("name", ["langgraph", "openai_agents", "langchain"])
@pytest.mark.parametrize("is_there", [False, True])
async def test_everything_has_an_actor(name: str, is_there: bool) -> None:
    """Also where the chat was made before, with a user and no agent, and where the store requires an actor."""
    adapter: Callable[..., Any] = globals()[f"by_{name}"]
    for given, actor in (({}, name), ({"actor": "desk"}, "desk")):
        with refold.open(":memory:", acting="required") as store:
            if is_there:
                with refold.acting(actor="mia"):
                    store.chat("c", user="mia")
            await adapter(store, **given)
            with refold.acting(actor="tom"):
                await adapter(store, **{} if name == "openai_agents" else given)

            actors = [event.meta.actor for event in store.chat("c", create=False).history()]
        assert set(actors[is_there:]) == {actor, "tom"}
