"""Graphs that tests run: with tools, questions to a person, a graph inside, parallel tasks, and edits of messages."""

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt

from refold.langgraph import RefoldSaver


class State(TypedDict):
    """The state of the graph."""

    messages: Annotated[list[AnyMessage], add_messages]
    turns: Annotated[int, operator.add]
    notes: Annotated[list[str], operator.add]


class InnerState(TypedDict):
    """The state of the graph inside."""

    messages: Annotated[list[AnyMessage], add_messages]
    depth: int


def model(state: State) -> dict[str, Any]:
    """Answer: now and then with two calls of a tool. Ids follow from the place, so that two runs are the same."""
    place = len(state["messages"])
    if place % 4 == 1:
        calls = [{"name": "lookup", "args": {"word": place, "at": 1.0}, "id": f"c{place}{which}"} for which in "ab"]
        usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        about = {"model_name": "small"}
        call = AIMessage("", id=f"m{place}", tool_calls=calls, usage_metadata=usage, response_metadata=about)
        return {"messages": [call], "turns": 1}
    parts = [{"type": "text", "text": f"answer {place}"}, {"type": "thinking", "thinking": "why?"}]
    return {"messages": [AIMessage(parts, id=f"m{place}")], "turns": 1, "notes": ["model"]}


def tools(state: State, use: Callable[[str], str] = str) -> dict[str, Any]:
    """Answer all calls."""
    calls = [call for message in state["messages"][-1:] for call in getattr(message, "tool_calls", ())]
    answers = [
        ToolMessage(use(call["id"]), tool_call_id=call["id"], id=f"t{call['id']}", artifact={"pair": (1, 2)})
        for call in calls
    ]
    return {"messages": answers, "notes": ["tools"]}


def ask(state: State) -> dict[str, Any]:
    """Ask a person."""
    return {"notes": [f"heard {interrupt({'question': len(state['messages'])})}"]}


def inner(state: InnerState) -> dict[str, Any]:
    """Do the one step of the graph inside."""
    return {"depth": 1, "messages": [AIMessage("inside", id=f"i{len(state['messages'])}")]}


def work(task: dict[str, Any]) -> dict[str, Any]:
    """Do one of the parallel tasks."""
    return {"notes": [f"work {task['number']}"]}


def after_model(state: State) -> str:
    """Return what follows on an answer."""
    return "tools" if any(getattr(message, "tool_calls", None) for message in state["messages"][-1:]) else "ask"


def everything(saver: Any) -> Any:
    """Return a graph with all of it."""
    within = StateGraph(InnerState)
    within.add_node("inner", inner)
    within.add_edge(START, "inner")
    within.add_edge("inner", END)
    graph = StateGraph(State)
    for node in (model, tools, ask, work):
        graph.add_node(node.__name__, node)
    graph.add_node("within", within.compile())
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", after_model, ["tools", "ask"])
    graph.add_edge("tools", "model")
    graph.add_edge("ask", "within")
    graph.add_conditional_edges("within", lambda _: [Send("work", {"number": n}) for n in range(3)], ["work"])
    graph.add_edge("work", END)
    return graph.compile(checkpointer=saver)


def chatting(saver: Any, answer: Callable[[State], dict[str, Any]]) -> Any:
    """Return a graph with one node."""
    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


def said(text: str, message_id: str) -> dict[str, Any]:
    """Return an input with one message of a user."""
    return {"messages": [HumanMessage(text, id=message_id)]}


def thread(thread_id: str = "t") -> dict[str, Any]:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": thread_id}}


# A list that holds itself.
LOOP: list[Any] = []
LOOP.append(LOOP)


def put(saver: RefoldSaver, config: Any, **channels: Any) -> Any:
    """Save a checkpoint with channels that are all new, after the one of a config."""
    checkpoint = empty_checkpoint()
    versions = dict.fromkeys(channels, saver.get_next_version(None, None))
    checkpoint |= {"channel_values": channels, "channel_versions": versions}
    configurable = {"checkpoint_ns": "", **config["configurable"]}
    return saver.put({"configurable": configurable}, checkpoint, {"source": "loop", "step": 0}, versions)


def values(saver: RefoldSaver, config: Any) -> dict[str, Any]:
    """Return the values of the checkpoint of a config."""
    found = saver.get_tuple(config)
    assert found is not None
    channels: dict[str, Any] = found.checkpoint["channel_values"]
    return channels
