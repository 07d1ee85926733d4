"""The kit's own runner over sessions in a store: tools, state, rewinds, and another process that goes on."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.tool_context import ToolContext
from google.genai import types

import refold
from refold.adk import RefoldSessionService

KEY: dict[str, Any] = {"user_id": "mia", "session_id": "s1"}


class ScriptedModel(BaseLlm):
    """Calls the tool once for each question, then says what it returned and how many contents it was sent."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield one response."""
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is None:
            call = types.FunctionCall(name="track", args={"order": int(last.text)})
            part = types.Part(function_call=call)
        else:
            part = types.Part(text=f"{last.function_response.response['result']}, {len(llm_request.contents)}")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def track(order: int, tool_context: ToolContext) -> dict[str, Any]:
    """Say where an order is."""
    tool_context.state["orders"] = [*tool_context.state.get("orders", []), order]
    tool_context.state["user:last"] = order
    tool_context.state["temp:seen"] = True
    return {"result": f"{order}: Lyon"}


async def asked(store: refold.Store, question: str) -> list[Any]:
    """Ask with a runner and a service of their own, as a new process would, and return the events."""
    agent = LlmAgent(name="clerk", model=ScriptedModel(model="scripted"), tools=[track])
    service = RefoldSessionService(store)
    runner = Runner(app_name="shop", agent=agent, session_service=service)
    if await service.get_session(app_name="shop", **KEY) is None:
        await service.create_session(app_name="shop", **KEY)
    message = types.Content(role="user", parts=[types.Part(text=question)])
    return [event async for event in runner.run_async(**KEY, new_message=message)]


async def test_a_run_goes_on_in_another_process(store: refold.Store) -> None:
    """The model is sent what it was sent before; all is in the chat; and a rewind undoes a question."""
    await asked(store, "7")
    events = await asked(store, "8")
    service = RefoldSessionService(store)
    chat = store.chat(service.chat_id(app_name="shop", **KEY))

    assert events[-1].content.parts[0].text == "8: Lyon, 7"
    assert [item.type for item in chat.items] == ["message", "function_call", "function_call_output", "message"] * 2
    assert chat.pending_calls() == []
    session = await service.get_session(app_name="shop", **KEY)
    assert session is not None
    assert session.state == {"orders": [7, 8], "user:last": 8}

    runner = Runner(app_name="shop", agent=LlmAgent(name="clerk"), session_service=service)
    await runner.rewind_async(**KEY, rewind_before_invocation_id=events[0].invocation_id)
    session = await service.get_session(app_name="shop", **KEY)
    assert session is not None
    chat.refresh()
    assert (session.state["orders"], len(session.events), len(_apply_rewinds(session.events))) == ([7], 9, 4)
    assert [item.text for item in chat.messages() if item.text] == ["7", "7: Lyon, 3"]
    assert (await asked(store, "9"))[-1].content.parts[0].text == "9: Lyon, 7"
    assert store.verify(processes=1).problems == ()
