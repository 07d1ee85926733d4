"""A model on Anthropic's Messages API, with prompt caching."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from ...domain.chat.pairing import PendingRule
from ...domain.chat.view import ChatView
from ...domain.concurrency.threads import in_thread
from ...domain.formats.anthropic.send import function_name
from ...domain.formats.receive import as_plain_data
from ...domain.llm.base import LLMResponse
from ...domain.llm.tools import ToolSchema
from .client_llm import ClientLLM, Ending, Request, key_from, missing_package, spoken

# The type of a block that is a call of a tool.
CALL = "tool_use"


class AnthropicLLM(ClientLLM):
    """
    A model of Anthropic.

    `client` is an `anthropic.AsyncAnthropic` of your own; else one is created with `api_key` or ANTHROPIC_API_KEY.
    `max_tokens` bounds an answer. `caching` marks the parts that stay the same from turn to turn for Anthropic's prompt
    cache. `pending` says how calls without an output are sent, as in `to_openai_messages`. `options` go with every
    request.

    Raises:
        ImportError: the package `anthropic` is not installed.
        LLMAuthenticationError: there is no key.
    """

    provider = "Anthropic"
    function_name = staticmethod(function_name)

    def __init__(
        self,
        model: str,
        *,
        client: Any | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        max_tokens: int = 4_096,
        caching: bool = True,
        pending: PendingRule = "stub",
        **options: Any,
    ) -> None:
        made = client or _client(api_key, base_url)
        super().__init__(
            model, made, owns_client=client is None, pending=pending, options={"max_tokens": max_tokens, **options}
        )
        self.caching = caching

    async def request(self, messages: ChatView[Any], tools: Sequence[ToolSchema], options: dict[str, Any]) -> Request:
        """Return the parameters of a message."""
        turns, system = await in_thread(messages.to_anthropic_messages, caching=self.caching, pending=self.pending)
        request: Request = {"model": self.model, "messages": turns, "stream": True}
        if system:
            request["system"] = system
        if tools:
            request["tools"] = [
                {"name": schema.name, "description": schema.description, "input_schema": schema.parameters}
                for schema in tools
            ]
        return request | options

    async def answer(self, request: Request) -> AsyncIterator[LLMResponse]:
        reading = _Reading()
        async with await self.client.messages.create(**request) as stream:
            async for event in stream:
                text = reading.text_of(event)
                if text:
                    yield spoken(text)
        yield reading.ending.response(self.provider)

    def name_calls(self, metadata: dict[str, Any], names: Mapping[str, str]) -> None:
        super().name_calls(metadata, names)
        for block in metadata.get("answer", {}).get("content", ()):
            if block["type"] == CALL:
                block["name"] = names.get(block["name"], block["name"])


class _Reading:
    """Reads the events of one message; the index of a block identifies it."""

    def __init__(self) -> None:
        self.ending = Ending()
        self._stop_reason: str | None = None
        self._about: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        # The JSON of the arguments of calls, as far as it came.
        self._inputs: dict[int, str] = {}

    def text_of(self, event: Any) -> str:
        """Process an event and return its text, or ""."""
        match event.type:
            case "message_start":
                self._about = {"model": event.message.model}
                self._count(event.message.usage)
            case "content_block_start":
                self._blocks[event.index] = as_plain_data(event.content_block)
            case "content_block_delta":
                return self._added(event.index, event.delta)
            case "message_delta":
                self._stop_reason = event.delta.stop_reason or self._stop_reason
                self._count(event.usage)
            case "message_stop":
                self._finish()
        return ""

    def _added(self, index: int, delta: Any) -> str:
        """Add a piece of a block, and return it if it is text that the model says."""
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.type:
            case "text_delta":
                block["text"] = (block.get("text") or "") + delta.text
                return str(delta.text)
            case "input_json_delta":
                self._inputs[index] = self._inputs.get(index, "") + delta.partial_json
            case "thinking_delta":
                block["thinking"] = (block.get("thinking") or "") + delta.thinking
            case "signature_delta":
                block["signature"] = delta.signature
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), as_plain_data(delta.citation)]
        return ""

    def _finish(self) -> None:
        self.ending.finish_reason = self._stop_reason or "end_turn"
        for index, block in self._blocks.items():
            # A tool without parameters gets no JSON at all.
            arguments = self._inputs.get(index) or json.dumps(block.get("input") or {})
            if block["type"] == CALL:
                call = {"call_id": block["id"], "name": block["name"], "arguments": arguments}
                self.ending.tool_calls.append(call)
            if "input" in block:
                block["input"] = _as_json(arguments)
        blocks = [*self._blocks.values()]
        if any(block["type"] not in ("text", CALL) for block in blocks):
            self.ending.answer = {"role": "assistant", "content": blocks, **self._about, "usage": self._usage}

    def _count(self, usage: Any) -> None:
        # Counts are cumulative; a count that an event lacks stays as it was. `input_tokens` leaves out cached tokens.
        budget = self.ending.usage
        if usage is None:
            return
        self._usage |= {name: count for name, count in as_plain_data(usage).items() if count is not None}
        if usage.input_tokens is not None:
            read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
            budget.input_tokens = max(budget.input_tokens, usage.input_tokens + read + written)
            budget.cached_tokens = max(budget.cached_tokens, read)
        budget.output_tokens = usage.output_tokens or budget.output_tokens
        budget.total_tokens = budget.input_tokens + budget.output_tokens


def _as_json(arguments: str) -> Any:
    # As strict as the log: Python's own decoder accepts NaN, and halves of characters.
    try:
        return msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        # A model that reached its limit in the middle of a call left them unfinished.
        return arguments


def _client(api_key: str | None, base_url: str | None) -> Any:
    try:
        from anthropic import AsyncAnthropic
    except ImportError as error:
        raise missing_package("anthropic", "anthropic") from error
    return AsyncAnthropic(api_key=key_from(AnthropicLLM.provider, api_key, "ANTHROPIC_API_KEY"), base_url=base_url)
