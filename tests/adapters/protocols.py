"""How each provider says the same: texts, calls of tools, and that it is done."""

import json
from typing import Any

from refold.infrastructure.models.anthropic_llm import AnthropicLLM
from refold.infrastructure.models.client_llm import ClientLLM
from refold.infrastructure.models.google_llm import GoogleLLM
from refold.infrastructure.models.openai_llm import OpenAILLM

from .server import sse

Call = tuple[str, str, str]


class OpenAI:
    """Chat completions."""

    name, path, package, extra = "OpenAI", "/v1/chat/completions", "openai", "openai"
    variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    # Two options, and what they are called on the wire.
    limit, stop = ("max_completion_tokens", "max_completion_tokens"), ("stop", "stop")

    @staticmethod
    def model(url: str, **options: Any) -> ClientLLM:
        """Return an adapter that asks the server at `url`."""
        return OpenAILLM("model-1", api_key="key-1", base_url=f"{url}/v1", **options)

    @staticmethod
    def without_key() -> ClientLLM:
        """Return an adapter that finds its key in the environment."""
        return OpenAILLM("model-1")

    @staticmethod
    def texts(*texts: str) -> list[str]:
        """Return the beginning of a stream."""
        return sse(*(_completion({"content": text}) for text in texts))

    @staticmethod
    def calls(*calls: Call) -> list[str]:
        """Return calls of tools, with their arguments in two pieces."""
        deltas = []
        for index, (call_id, name, arguments) in enumerate(calls):
            head, rest = arguments[:3], arguments[3:]
            deltas.append({"index": index, "id": call_id, "function": {"name": name, "arguments": head}})
            deltas.append({"index": index, "function": {"arguments": rest}})
        return sse(*(_completion({"tool_calls": [delta]}) for delta in deltas))

    @staticmethod
    def end() -> list[str]:
        """Return the end of a stream: 7 tokens in, 3 of them cached, 5 out."""
        usage = {
            "prompt_tokens": 7,
            "completion_tokens": 5,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 3},
        }
        return sse(_completion({}, "stop"), _completion(None, usage=usage), "[DONE]")

    @staticmethod
    def failure(status: int) -> Any:
        """Return the body of an error."""
        return {"error": {"message": f"no: {status}", "type": "some_error"}}

    @staticmethod
    def failing() -> list[str]:
        """Return an error in the middle of a stream."""
        return sse({"error": {"message": "overloaded", "type": "server_error"}})

    @staticmethod
    def tools_of(body: Any) -> list[tuple[str, str, Any]]:
        """Return the tools of a request."""
        found = [tool["function"] for tool in body["tools"]]
        return [(tool["name"], tool["description"], tool["parameters"]) for tool in found]


def _completion(delta: Any, finish: str | None = None, usage: Any = None) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    made = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "model-1"}
    return {**made, "choices": choices, "usage": usage}


class Anthropic:
    """Messages."""

    name, path, package, extra = "Anthropic", "/v1/messages", "anthropic", "anthropic"
    variables: tuple[str, ...] = ("ANTHROPIC_API_KEY",)
    # Two options, and what they are called on the wire.
    limit, stop = ("max_tokens", "max_tokens"), ("stop_sequences", "stop_sequences")

    @staticmethod
    def model(url: str, **options: Any) -> ClientLLM:
        """Return an adapter that asks the server at `url`."""
        return AnthropicLLM("model-1", api_key="key-1", base_url=url, **options)

    @staticmethod
    def without_key() -> ClientLLM:
        """Return an adapter that finds its key in the environment."""
        return AnthropicLLM("model-1")

    @staticmethod
    def texts(*texts: str) -> list[str]:
        """Return the beginning of a stream."""
        usage = {"input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "model-1", "content": []}
        return sse(
            {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *(_block_delta(0, {"type": "text_delta", "text": text}) for text in texts),
            {"type": "content_block_stop", "index": 0},
            named=True,
        )

    @staticmethod
    def calls(*calls: Call) -> list[str]:
        """Return calls of tools, with their arguments in two pieces."""
        events: list[Any] = []
        for index, (call_id, name, arguments) in enumerate(calls, 1):
            block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            for piece in (arguments[:3], arguments[3:]):
                events.append(_block_delta(index, {"type": "input_json_delta", "partial_json": piece}))
        return sse(*events, named=True)

    @staticmethod
    def end() -> list[str]:
        """Return the end of a stream: 7 tokens in, 3 of them cached, 5 out."""
        delta = {"type": "message_delta", "delta": {"stop_reason": "stop"}, "usage": {"output_tokens": 5}}
        return sse(delta, {"type": "message_stop"}, named=True)

    @staticmethod
    def failure(status: int) -> Any:
        """Return the body of an error."""
        return {"type": "error", "error": {"type": "some_error", "message": f"no: {status}"}}

    @staticmethod
    def failing() -> list[str]:
        """Return an error in the middle of a stream."""
        return sse({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}, named=True)

    @staticmethod
    def tools_of(body: Any) -> list[tuple[str, str, Any]]:
        """Return the tools of a request."""
        return [(tool["name"], tool["description"], tool["input_schema"]) for tool in body["tools"]]


def _block_delta(index: int, delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


class Google:
    """Streamed generation of content."""

    name, path = "Google", "/models/model-1:streamGenerateContent?alt=sse"
    package, extra = "google.genai", "google"
    variables: tuple[str, ...] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    limit, stop = ("max_output_tokens", "maxOutputTokens"), ("stop_sequences", "stopSequences")

    @staticmethod
    def model(url: str, **options: Any) -> ClientLLM:
        """Return an adapter that asks the server at `url`."""
        return GoogleLLM("model-1", api_key="key-1", base_url=url, **options)

    @staticmethod
    def without_key() -> ClientLLM:
        """Return an adapter that finds its key in the environment."""
        return GoogleLLM("model-1")

    @staticmethod
    def texts(*texts: str) -> list[str]:
        """Return the beginning of a stream."""
        return sse(*(_content({"text": text}) for text in texts))

    @staticmethod
    def calls(*calls: Call) -> list[str]:
        """Return calls of tools."""
        made = [{"id": call_id, "name": name, "args": json.loads(args or "{}")} for call_id, name, args in calls]
        return sse(*(_content({"functionCall": call}) for call in made))

    @staticmethod
    def end() -> list[str]:
        """Return the end of a stream: 7 tokens in, 3 of them cached, 5 out."""
        usage = {
            "promptTokenCount": 7,
            "candidatesTokenCount": 4,
            "thoughtsTokenCount": 1,
            "totalTokenCount": 12,
            "cachedContentTokenCount": 3,
        }
        return sse({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage})

    @staticmethod
    def failure(status: int) -> Any:
        """Return the body of an error."""
        return {"error": {"code": status, "message": f"no: {status}", "status": "SOME_ERROR"}}

    @staticmethod
    def failing() -> list[str]:
        """Return an error in the middle of a stream."""
        return sse({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}})

    @staticmethod
    def tools_of(body: Any) -> list[tuple[str, str, Any]]:
        """Return the tools of a request."""
        found = body["tools"][0]["functionDeclarations"]
        # Google takes both spellings, and its client has used both.
        schemas = [tool.get("parametersJsonSchema") or tool.get("parameters_json_schema") for tool in found]
        return [(tool["name"], tool["description"], schema) for tool, schema in zip(found, schemas, strict=True)]


def _content(part: Any) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}


Protocol = type[OpenAI] | type[Anthropic] | type[Google]
PROTOCOLS: list[Protocol] = [OpenAI, Anthropic, Google]
