"""A model on Google's Gemini API, which keeps the signatures of thoughts where the API wants them back."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ...domain.chat.pairing import PendingRule
from ...domain.chat.view import ChatView
from ...domain.clock import REAL_SYSTEM
from ...domain.formats.google.send import function_name
from ...domain.llm.base import LLMResponse, TokenBudget
from ...domain.llm.tools import ToolSchema
from .client_llm import ClientLLM, Ending, Request, key_from, missing_package, spoken

# Models that refuse images in outputs.
BEFORE_3 = re.compile(r"gemini-[12]\b")


class GoogleLLM(ClientLLM):
    """
    A model of Google.

    `client` is a `google.genai.Client` of your own (for Vertex AI, say); else one is created with `api_key`,
    GOOGLE_API_KEY or GEMINI_API_KEY. `pending` says how calls without an output are sent, as in `to_openai_messages`.
    `options` are fields of `GenerateContentConfig`, for every request.

    Raises:
        ImportError: the package `google-genai` is not installed.
        LLMAuthenticationError: there is no key.
    """

    provider = "Google"
    function_name = staticmethod(function_name)

    def __init__(
        self,
        model: str,
        *,
        client: Any | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        pending: PendingRule = "stub",
        **options: Any,
    ) -> None:
        made = client or _client(api_key, base_url)
        super().__init__(model, made, owns_client=client is None, pending=pending, options=options)

    async def request(self, messages: ChatView[Any], tools: Sequence[ToolSchema], options: dict[str, Any]) -> Request:
        """Return the parameters of a generation."""
        contents, system = await messages.to_google_contents(pending=self.pending)
        if BEFORE_3.search(self.model):
            contents = [one for content in contents for one in _with_images_behind(content)]
        # The caller of Refold runs the tools, not Google's client.
        config: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
        if system:
            config["system_instruction"] = system
        if tools:
            declarations = [
                {
                    "name": schema.name,
                    "description": schema.description,
                    "parameters_json_schema": schema.parameters,
                }
                for schema in tools
            ]
            config["tools"] = [{"function_declarations": declarations}]
        return {"model": self.model, "contents": contents, "config": config | options}

    async def answer(self, request: Request) -> AsyncIterator[LLMResponse]:
        ending = Ending()
        stream = await self.client.aio.models.generate_content_stream(**request)
        try:
            async for chunk in stream:
                if chunk.usage_metadata is not None:
                    ending.usage = _usage(chunk.usage_metadata)
                text = _read(chunk, ending)
                if text:
                    yield spoken(text)
        finally:
            await stream.aclose()
        yield ending.response(self.provider)

    async def close_client(self) -> None:
        await self.client.aio.aclose()
        self.client.close()


def _with_images_behind(content: Any) -> list[Any]:
    """Return a content without images in its outputs, and these images as a content of the user."""
    from google.genai.types import Part

    images = []
    for part in content.parts or ():
        response = part.function_response
        if response is not None and response.parts:
            images += [
                Part.from_bytes(data=one.inline_data.data, mime_type=one.inline_data.mime_type)
                for one in response.parts
            ]
            response.parts = None
    return [content, type(content)(role="user", parts=images)] if images else [content]


def _read(chunk: Any, ending: Ending) -> str:
    feedback = chunk.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        # A refused question has no candidate, so no candidate sets the finish reason.
        ending.finish_reason = str(feedback.block_reason.value)
    texts = []
    for candidate in (chunk.candidates or [])[:1]:
        if candidate.finish_reason is not None:
            ending.finish_reason = str(candidate.finish_reason.value)
        for part in (candidate.content and candidate.content.parts) or ():
            if part.function_call is not None:
                ending.tool_calls.append(_call(part))
            elif part.text and not part.thought:
                texts.append(part.text)
    return "".join(texts)


def _call(part: Any) -> dict[str, Any]:
    signature = part.thought_signature
    metadata = {"thought_signature": base64.b64encode(signature).decode("ascii")} if signature else None
    return {
        # Gemini may leave out the id, but an output is paired with its call by the id.
        "call_id": part.function_call.id or REAL_SYSTEM.new_id("call_"),
        "name": part.function_call.name,
        "arguments": json.dumps(part.function_call.args or {}, ensure_ascii=False),
        "metadata": metadata,
    }


def _usage(usage: Any) -> TokenBudget:
    return TokenBudget(
        input_tokens=usage.prompt_token_count or 0,
        output_tokens=(usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
        total_tokens=usage.total_token_count or 0,
        cached_tokens=usage.cached_content_token_count or 0,
    )


def _client(api_key: str | None, base_url: str | None) -> Any:
    try:
        from google import genai
    except ImportError as error:
        raise missing_package("google-genai", "google") from error
    key = key_from(GoogleLLM.provider, api_key, "GOOGLE_API_KEY", "GEMINI_API_KEY")
    return genai.Client(api_key=key, http_options={"base_url": base_url} if base_url else None)
