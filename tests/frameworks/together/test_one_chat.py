"""One chat, opened by several frameworks in turn: one history, which is sound for each of them."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from agents import Runner, set_tracing_disabled
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from mcp import Client
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessagesTypeAdapter, ToolCallPart, ToolReturnPart
from pydantic_ai.models.test import TestModel

import refold
from refold.langchain import RefoldChatMessageHistory
from refold.langgraph import RefoldSaver
from refold.mcp import mcp_server
from refold.openai_agents import RefoldSession
from refold.pydantic_ai import RefoldConversations, messages_of, record

from ..langgraph.graphs import State, chatting, thread
from ..openai_agents.scripted_model import ScriptedModel, clerk
from ..openai_agents.test_session import ENTRIES
from ..pydantic_ai.test_messages import MESSAGES

ENTRY: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
Call = tuple[str, str]


def tied(calls_and_outputs: Iterable[Call]) -> bool:
    """Return whether each output comes behind a call with its id."""
    called: set[str] = set()
    for kind, call_id in calls_and_outputs:
        if kind == "output" and call_id not in called:
            return False
        called |= {call_id} if kind == "call" else set()
    return True


def of_langchain(messages: Sequence[BaseMessage]) -> Iterable[Call]:
    """Yield the calls and outputs of messages."""
    for message in messages:
        yield from (("call", str(call["id"])) for call in getattr(message, "tool_calls", ()))
        if isinstance(message, ToolMessage):
            yield "output", message.tool_call_id


def of_pydantic(messages: Sequence[Any]) -> Iterable[Call]:
    """Yield the calls and outputs of messages."""
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ToolCallPart | ToolReturnPart):
            yield ("call" if isinstance(part, ToolCallPart) else "output"), part.tool_call_id


def of_openai(entries: Sequence[Any]) -> Iterable[Call]:
    """Yield the calls and outputs of entries."""
    kinds = {"function_call": "call", "function_call_output": "output"}
    return ((kinds[entry["type"]], entry["call_id"]) for entry in entries if entry.get("type") in kinds)


async def counts(store: refold.Store, name: str) -> list[int]:
    """Return how many calls and outputs each framework reads in a chat; they are tied in each."""
    read: list[list[Call]] = []
    graph = chatting(RefoldSaver(store), echo)
    read.append(list(of_langchain(graph.get_state(thread(name)).values["messages"])))
    loaded = await RefoldConversations(store).load(name)
    assert loaded is not None
    read.append(list(of_pydantic(loaded.messages)))
    entries = await RefoldSession(store, name).get_items()
    for entry in entries:
        ENTRY.validate_python(entry)
    read.append(list(of_openai(entries)))
    assert all(map(tied, read))
    return [len(one) for one in read]


def echo(state: State) -> dict[str, Any]:
    """Call a tool, and answer when it has answered."""
    last = state["messages"][-1]
    place = len(state["messages"])
    if isinstance(last, HumanMessage):
        call = {"name": "lookup", "args": {"at": place}, "id": f"lg{place}"}
        output = ToolMessage(f"place {place}", name="lookup", tool_call_id=call["id"])
        return {"messages": [AIMessage("I look.", tool_calls=[call]), output, AIMessage(f"answer {place}")]}
    return {"messages": [AIMessage(f"answer {place}")]}


async def by_langgraph(store: refold.Store) -> None:
    """Run a graph."""
    graph = chatting(RefoldSaver(store), echo)
    await asyncio.to_thread(graph.invoke, {"messages": [HumanMessage("Say it by LangGraph.")]}, thread("t"))


async def by_openai(store: refold.Store) -> None:
    """Run an agent of the OpenAI SDK."""
    agent = clerk(lambda _: None, ScriptedModel())
    await Runner.run(agent, "Say it by OpenAI.", session=RefoldSession(store, "t"))


async def by_pydantic(store: refold.Store) -> None:
    """Run an agent of Pydantic AI, which calls its tool."""
    agent = Agent(TestModel(custom_output_text="Done."), instructions="Be brief.")

    @agent.tool_plain
    def track(order: int) -> str:
        return f"{order}: Lyon"

    conversations = RefoldConversations(store)
    conversation = await conversations.load("t") or Conversation(conversation_id="t")
    await conversations.save(await agent.run("Say it by Pydantic AI.", conversation=conversation))


async def by_mcp(store: refold.Store) -> None:
    """Append by a tool of the protocol."""
    async with Client(mcp_server(store, write=True)) as client:
        messages = [{"role": "user", "content": "Say it by MCP."}]
        result = await client.call_tool("context_append", {"context": "t", "messages": messages, "create": True})
        assert not result.is_error, result.content


WRITERS: dict[str, Callable[[refold.Store], Any]] = {
    "LangGraph": by_langgraph,
    "OpenAI": by_openai,
    "Pydantic AI": by_pydantic,
    "MCP": by_mcp,
}


@pytest.mark.parametrize("first", range(len(WRITERS)), ids=list(WRITERS))
async def test_frameworks_take_turns(store: refold.Store, first: int) -> None:
    """Whoever begins: nobody takes out what another one said, and each one reads all calls with their outputs."""
    set_tracing_disabled(True)
    names = [*WRITERS][first:] + [*WRITERS][:first]
    said_by: list[str] = []
    for name in [*names, *names]:
        before = [item.id for item in store.chat("t").items] if said_by else []
        await WRITERS[name](store)
        said_by.append(name)
        chat = store.chat("t")

        assert [item.id for item in chat.items][: len(before)] == before
        spoken = [message.text for message in chat.messages() if message.role == "user"]
        assert spoken == [f"Say it by {one}." for one in said_by]
        assert len(set(await counts(store, "t"))) == 1
        assert chat.pending_calls() == []
    calls = sum(item.type == "function_call" for item in chat.items)
    assert await counts(store, "t") == [2 * calls] * 3
    assert chat.evicted_items() == []
    assert store.verify().is_whole
    actors = {event.meta.actor for event in chat.recorded_events()}
    assert {"pydantic_ai", "mcp"} <= actors


async def test_none_shows_what_was_erased_meanwhile(store: refold.Store) -> None:
    """Not from its memory either: what was read before the erasure is read again, by the same objects."""
    await by_langgraph(store)
    graph, session = chatting(RefoldSaver(store), echo), RefoldSession(store, "t")
    conversations = RefoldConversations(store)

    async def shown() -> list[str]:
        loaded = await conversations.load("t")
        return [repr(one) for one in (graph.get_state(thread("t")).values, await session.get_items(), loaded)]

    for _ in range(3):
        assert ["Say it by LangGraph." in one for one in await shown()] == [True] * 3

    store.erase(context="t", why="asked for", dry_run=False)

    assert "Say it" not in repr(vars(session))
    assert ["Say it" in one for one in await shown()] == [False] * 3
    assert ["[erased]" in one for one in await shown()] == [True] * 3


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
CALLS = st.lists(
    st.fixed_dictionaries({"name": st.just("track"), "args": st.just({"order": 7}), "id": st.sampled_from("cd")}),
    max_size=2,
)
PARTS = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS})
    | st.just({"type": "thinking", "thinking": "why?", "signature": "s"}),
    min_size=1,
    max_size=2,
)
SAID = st.lists(
    st.builds(HumanMessage, TEXTS)
    | st.builds(SystemMessage, TEXTS)
    | st.builds(AIMessage, TEXTS | PARTS, tool_calls=CALLS)
    | st.builds(ToolMessage, TEXTS, tool_call_id=st.sampled_from("cd"), name=st.just("track")),
    max_size=4,
)
TURNS = st.lists(
    st.tuples(st.just("langchain"), SAID)
    | st.tuples(st.just("openai"), ENTRIES)
    | st.tuples(st.just("pydantic"), MESSAGES),
    max_size=5,
)


def is_within(own: Sequence[Any], read: Sequence[Any]) -> bool:
    """Return whether all of these are among the messages that were read, in their order."""
    rest = iter(read)
    return all(any(one == other for other in rest) for one in own)


@settings(max_examples=60)
@given(TURNS)
def test_any_messages_are_sound_for_the_others(turns: list[tuple[str, Any]]) -> None:
    """
    Whatever a framework records comes back to it unchanged, whoever recorded something beside it.

    The others read messages that are valid in their form; outputs without a call, as a framework may record them, are
    read by that one only.
    """

    async def check() -> None:
        with refold.open(":memory:") as store:
            history, session = RefoldChatMessageHistory(store, "c"), RefoldSession(store, "c")
            own: dict[str, list[Any]] = {"langchain": [], "openai": [], "pydantic": []}
            for writer, messages in turns:
                if writer == "langchain":
                    given = [message.model_copy(deep=True) for message in messages]
                    history.add_messages(given)
                elif writer == "openai":
                    given = messages
                    await session.add_items(given)
                else:
                    given = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
                    chat = store.chat("c")
                    record(chat, messages)
                own[writer] += given
            read = {
                "langchain": [without_id(message) for message in history.messages],
                "openai": await session.get_items(),
                "pydantic": messages_of(store.chat("c")),
            }
            own["langchain"] = [without_id(message) for message in own["langchain"]]
            for writer, messages in own.items():
                assert is_within(messages, read[writer]), writer
            if len([writer for writer, messages in own.items() if messages]) == 1:
                ways: dict[str, Any] = {"langchain": of_langchain, "openai": of_openai, "pydantic": of_pydantic}
                others = [writer for writer, messages in own.items() if not messages]
                assert all(tied(ways[writer](read[writer])) for writer in others)
            chat = store.chat("c")
            chat.to_openai_messages()
            chat.to_anthropic_messages()
            chat.to_openai_responses()
            chat.to_google_json()

    asyncio.run(check())


def without_id(message: Any) -> Any:
    """Return a message as it was before it was recorded, which gives it an id."""
    return message.model_copy(update={"id": None})
