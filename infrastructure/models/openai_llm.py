"""A model on OpenAI's chat completions, at OpenAI or at a server with the same API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from ...domain.chat.pairing import PendingRule
from ...domain.chat.view import ChatView
from ...domain.concurrency.threads import in_thread
from ...domain.formats.openai.send import function_name
from ...domain.llm.base import LLMResponse, TokenBudget
from ...domain.llm.tools import ToolSchema
from .client_llm import ClientLLM, Ending, Request, key_from, missing_package, spoken


class OpenAILLM(ClientLLM):
    """
    A model of OpenAI, or of a server at `base_url` that speaks its protocol.

    `client` is an `openai.AsyncOpenAI` of your own; else one is created with `api_key` or OPENAI_API_KEY.
    `reasoning_model` sends system messages as "developer". `pending` says how calls without an output are sent, as in
    `to_openai_messages`. `options` go with every request.

    Raises:
        ImportError: the package `openai` is not installed.
        LLMAuthenticationError: there is no key.
    """

    provider = "OpenAI"
    function_name = staticmethod(function_name)

    def __init__(
        self,
        model: str,
        *,
        client: Any | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        reasoning_model: bool = False,
        pending: PendingRule = "stub",
        **options: Any,
    ) -> None:
        made = client or _client(api_key, base_url)
        super().__init__(model, made, owns_client=client is None, pending=pending, options=options)
        self.reasoning_model = reasoning_model

    async def request(self, messages: ChatView[Any], tools: Sequence[ToolSchema], options: dict[str, Any]) -> Request:
        """Return the parameters of a chat completion."""
        turns = await in_thread(messages.to_openai_messages, reasoning_model=self.reasoning_model, pending=self.pending)
        request: Request = {
            "model": self.model,
            "messages": turns,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if tools:
            request["tools"] = [
                {"type": "function", "function": {
                    "name": schema.name, "description": schema.description, "parameters": schema.parameters,
                }}
                for schema in tools
            ]  # fmt: skip
        return request | options

    async def answer(self, request: Request) -> AsyncIterator[LLMResponse]:
        ending = Ending()
        calls = _Calls(ending.tool_calls)
        async with await self.client.chat.completions.create(**request) as stream:
            async for chunk in stream:
                if chunk.usage is not None:
                    ending.usage = _usage(chunk.usage)
                # The chunk with the usage has no choices; only one choice is requested.
                for choice in chunk.choices[:1]:
                    ending.finish_reason = choice.finish_reason or ending.finish_reason
                    if choice.delta is None:
                        # In such a choice Azure sends what its filter found.
                        continue
                    calls.add(choice.delta.tool_calls)
                    # A refusal is the text that the model gives instead of an answer.
                    text = choice.delta.content or choice.delta.refusal
                    if text:
                        yield spoken(text)
        yield ending.response(self.provider)


class _Calls:
    """Joins the pieces of calls, whose arguments come in several chunks; `found` gets the calls as they begin."""

    def __init__(self, found: list[dict[str, Any]]) -> None:
        self._found = found
        self._by_index: dict[int, dict[str, Any]] = {}

    def add(self, deltas: Sequence[Any] | None) -> None:
        """
        Add the pieces of one chunk. One with a name and another id begins a call, as some servers give all calls one
        index; later pieces may have an id of their own.
        """
        for delta in deltas or ():
            call = self._by_index.get(delta.index)
            is_named = delta.id and delta.function is not None and delta.function.name
            if call is None or (is_named and call["call_id"] not in ("", delta.id)):
                call = self._by_index[delta.index] = {"call_id": "", "name": "", "arguments": ""}
                self._found.append(call)
            call["call_id"] = call["call_id"] or delta.id or ""
            if delta.function is not None:
                call["name"] = delta.function.name or call["name"]
                call["arguments"] += delta.function.arguments or ""


def _usage(usage: Any) -> TokenBudget:
    asked, answered = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return TokenBudget(
        input_tokens=asked,
        output_tokens=answered,
        total_tokens=usage.total_tokens or asked + answered,
        cached_tokens=getattr(usage.prompt_tokens_details, "cached_tokens", None) or 0,
    )


def _client(api_key: str | None, base_url: str | None) -> Any:
    try:
        from openai import AsyncOpenAI
    except ImportError as error:
        raise missing_package("openai", "openai") from error
    return AsyncOpenAI(api_key=key_from(OpenAILLM.provider, api_key, "OPENAI_API_KEY"), base_url=base_url)
