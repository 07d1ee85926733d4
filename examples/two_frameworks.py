"""
A graph of LangGraph and an agent of the OpenAI SDK take turns in one conversation, with models that need no network.

    pip install "refold[langgraph,openai-agents]"
    python examples/two_frameworks.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import refold
from refold.langgraph import RefoldSaver
from refold.openai_agents import RefoldSession


def look_up(state: MessagesState) -> dict[str, Any]:
    """Answer the last question of the user, by a tool."""
    number = len(state["messages"])
    call = {"name": "track", "args": {"order": 7}, "id": f"call_{number}"}
    output = ToolMessage("in Lyon", name="track", tool_call_id=call["id"])
    return {"messages": [AIMessage("", tool_calls=[call]), output, AIMessage("Your order is in Lyon.")]}


class Counting(Model):
    """A model that says how many entries it was sent."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        """Answer."""
        text = ResponseOutputText(type="output_text", text=f"I have read {len(input)} entries.", annotations=[])
        said = ResponseOutputMessage(id="msg_1", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """Nothing is streamed here."""
        raise NotImplementedError


def main() -> None:
    """Let both take two turns, and show the conversation."""
    set_tracing_disabled(True)
    with refold.open(":memory:") as store:
        builder = StateGraph(MessagesState)
        builder.add_node(look_up)
        builder.add_edge(START, "look_up")
        graph = builder.compile(checkpointer=RefoldSaver(store))
        agent = Agent(name="clerk", model=Counting())
        for _ in range(2):
            graph.invoke({"messages": [HumanMessage("Where is it?")]}, {"configurable": {"thread_id": "support-42"}})
            asyncio.run(Runner.run(agent, "And how long is this talk?", session=RefoldSession(store, "support-42")))
        for item in store.chat("support-42").items:
            if isinstance(item, refold.ChatMessage):
                print(f"{item.role.value}: {item.text}")
            elif isinstance(item, refold.FunctionCall | refold.FunctionCallOutput):
                print(f"{item.type}: {item.name}")


if __name__ == "__main__":
    main()
