"""What only one of the providers does."""

import asyncio
import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.usage import usage_of
from refold.domain.llm.base import LLMResponse, TokenBudget, collect
from refold.infrastructure.models.anthropic_llm import AnthropicLLM
from refold.infrastructure.models.google_llm import GoogleLLM
from refold.infrastructure.models.openai_llm import OpenAILLM

from .protocols import Anthropic, Google, OpenAI
from .server import Answer, Server, sse
from .test_adapters import asked, refused


def ending(server: Server, answer: Answer, provider: Any) -> dict[str, Any]:
    """Return the metadata of a whole answer."""
    server.answers = [answer]
    *_, last = asyncio.run(asked(provider.model(server.url)))
    return last.metadata or {}


def test_openai_gets_the_context(server: Server) -> None:
    """A real context is converted; a server that speaks the same is asked with its own key."""
    server.answers = [Answer([*OpenAI.texts("ok"), *OpenAI.end()])]
    chat = ChatContext()
    chat.add_message("user", "hi")

    async def ask() -> LLMResponse:
        async with OpenAI.model(server.url) as model:
            return await collect(model.chat(chat))

    assert asyncio.run(ask()).content == "ok"
    assert server.body["messages"] == chat.to_openai_messages()
    assert server.requests[0][1]["authorization"] == "Bearer key-1"
    assert server.body["stream_options"] == {"include_usage": True}


def test_openai_reasoning_models_get_developer_messages(server: Server) -> None:
    """The role is the one that these models know."""
    server.answers = [Answer([*OpenAI.texts("ok"), *OpenAI.end()])]

    asyncio.run(asked(OpenAI.model(server.url, reasoning_model=True)))

    assert server.body["messages"][0]["role"] == "developer"


def test_what_a_filter_of_azure_found_is_no_text(server: Server) -> None:
    """It comes in choices without a delta, among the others."""
    found = {"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {"check_offset": 4}}]}
    server.answers = [Answer([*OpenAI.texts("On its "), *sse(found), *OpenAI.texts("way."), *OpenAI.end()])]

    pieces = asyncio.run(asked(OpenAI.model(server.url)))

    assert "".join(piece.content for piece in pieces) == "On its way."


@pytest.mark.parametrize("index", [0, None])
def test_calls_under_one_index(server: Server, index: int | None) -> None:
    """Gemini's server for this API numbers none of several calls; OpenAI repeats no id within a call."""
    calls = [("c1", "look_up", '{"a": 1}'), ("c2", "look_up", '{"b": 2}')]
    pieces = [json.loads(piece.removeprefix("data: ")) for piece in OpenAI.calls(*calls)]
    for piece in pieces:
        piece["choices"][0]["delta"]["tool_calls"][0]["index"] = index

    found = ending(server, Answer([*sse(*pieces), *OpenAI.end()]), OpenAI)["tool_calls"]

    assert [(call["call_id"], call["name"], call["arguments"]) for call in found] == calls


def test_pieces_of_a_call_with_other_ids(server: Server) -> None:
    """Some servers give each piece one; a call begins with its name."""
    pieces = [json.loads(piece.removeprefix("data: ")) for piece in OpenAI.calls(("c1", "look_up", '{"a": 1}'))]
    for number, piece in enumerate(pieces, 1):
        piece["choices"][0]["delta"]["tool_calls"][0]["id"] = f"c{number}"

    (call,) = ending(server, Answer([*sse(*pieces), *OpenAI.end()]), OpenAI)["tool_calls"]

    assert (call["call_id"], call["name"], call["arguments"]) == ("c1", "look_up", '{"a": 1}')


def test_anthropic_caches(server: Server) -> None:
    """Instructions go beside the messages, marked for the cache unless that is turned off."""
    server.answers = [Answer([*Anthropic.texts("ok"), *Anthropic.end()]) for _ in range(2)]

    asyncio.run(asked(Anthropic.model(server.url)))
    asyncio.run(asked(Anthropic.model(server.url, caching=False)))

    marked = {"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}
    assert [body["system"] for _, _, body in server.requests] == [[marked], "be kind"]
    assert server.body["max_tokens"] == 4_096


def test_anthropic_thoughts_are_no_text(server: Server) -> None:
    """What the model thinks is not what it says."""
    thought = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}
    thoughts = sse(start, thought, named=True)
    server.answers = [Answer([*Anthropic.texts("said"), *thoughts, *Anthropic.end()])]

    pieces = asyncio.run(asked(Anthropic.model(server.url)))

    assert "".join(piece.content for piece in pieces) == "said"


def test_tools_that_anthropic_runs_itself(server: Server) -> None:
    """Their arguments come in pieces as well; they are no calls for the caller."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    pieces = [
        {"type": "content_block_start", "index": 5, "content_block": search},
        {"type": "content_block_delta", "index": 5, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    ]
    call = Anthropic.calls(("c1", "look_up", '{"order": 7}'))

    found = ending(server, Answer([*Anthropic.texts(), *sse(*pieces, named=True), *call, *Anthropic.end()]), Anthropic)
    assert found["tool_calls"] == [{"call_id": "c1", "name": "look_up", "arguments": '{"order": 7}'}]
    assert search in found["answer"]["content"]


@pytest.mark.parametrize("arguments", ['{"order": NaN}', r'{"order": "\ud800"}', '{"order": 7', "[" * 10_000])
def test_arguments_that_are_no_json(arguments: str, server: Server) -> None:
    """The answer beside which a model thought is recorded all the same, with what the model wrote."""
    sealed = {"type": "redacted_thinking", "data": "c2VhbGVk"}
    thought = sse({"type": "content_block_start", "index": 5, "content_block": sealed}, named=True)
    pieces = [*Anthropic.texts(), *thought, *Anthropic.calls(("c1", "look_up", arguments)), *Anthropic.end()]
    chat = ChatContext()

    chat.add_messages(ending(server, Answer(pieces), Anthropic)["answer"])

    assert getattr(chat.items[-1], "arguments", None) == arguments


@pytest.mark.parametrize("text", ["", "I look it up."])
def test_thinking_of_anthropic_goes_back_to_it(text: str, server: Server) -> None:
    """It wants what came before a call, as it was, with the output; a loop records the whole answer."""
    sealed = {"type": "redacted_thinking", "data": "c2VhbGVk"}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (sealed, []),
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "An order, "},
                {"type": "thinking_delta", "thinking": "so look."},
                {"type": "signature_delta", "signature": "c2lnbmVk"},
            ],
        ),
        ({"type": "text", "text": text}, []),
        (
            {"type": "tool_use", "id": "c1", "name": "shop_look_up", "input": {}},
            [{"type": "input_json_delta", "partial_json": '{"order": 7}'}],
        ),
    ]
    pieces: list[Any] = []
    for index, (block, deltas) in enumerate(blocks):
        pieces.append({"type": "content_block_start", "index": index, "content_block": block})
        pieces += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    start, *_ = Anthropic.texts()
    server.answers = [Answer([start, *sse(*pieces, named=True), *Anthropic.end()])]
    tool = {"name": "shop.look_up", "description": "", "parameters": {"type": "object", "properties": {}}}
    *_, last = asyncio.run(asked(Anthropic.model(server.url), tools=[tool]))
    chat = ChatContext()
    chat.add_message("user", "Where is order 7?")

    chat.add_messages((last.metadata or {})["answer"])
    chat.add_function_output("shop.look_up", "shipped", call_id="c1")

    (_, turn, _), _ = chat.to_anthropic_messages()
    said = [{"type": "text", "text": text}] if text else []
    assert turn["content"] == [
        sealed,
        {"type": "thinking", "thinking": "An order, so look.", "signature": "c2lnbmVk"},
        *said,
        {"type": "tool_use", "id": "c1", "name": "shop_look_up", "input": {"order": 7}},
    ]
    assert [getattr(item, "name", None) for item in chat.items[-2:]] == ["shop.look_up"] * 2
    used = usage_of(chat.recorded_items()[1])
    assert (used.model, used.input_tokens, used.cached_tokens, used.output_tokens) == ("model-1", 7, 3, 5)


def test_google_keeps_signatures_and_makes_ids(server: Server) -> None:
    """A call's signature goes where the conversion looks for it; a call without an id gets one."""
    signature = base64.b64encode(b"sealed").decode()
    part = {"functionCall": {"name": "f", "args": {"city": "Zürich"}}, "thoughtSignature": signature}
    call = sse({"candidates": [{"content": {"role": "model", "parts": [part]}}]})

    (found,) = ending(server, Answer([*call, *Google.end()]), Google)["tool_calls"]

    assert found.pop("call_id").startswith("call_")
    assert found == {
        "name": "f",
        "arguments": '{"city": "Zürich"}',
        "metadata": {"thought_signature": signature},
    }


def test_google_thoughts_are_no_text(server: Server) -> None:
    """What the model thinks is not what it says."""
    parts = [{"text": "hm", "thought": True}, {"text": "said"}]
    answer = sse({"candidates": [{"content": {"role": "model", "parts": parts}}]})
    server.answers = [Answer([*answer, *Google.end()])]

    pieces = asyncio.run(asked(Google.model(server.url)))

    assert "".join(piece.content for piece in pieces) == "said"


def test_google_says_that_a_question_was_blocked(server: Server) -> None:
    """A blocked question has no candidates: it ends with the reason, not as if it had broken off."""
    blocked = Answer(sse({"promptFeedback": {"blockReason": "SAFETY"}}))

    assert ending(server, blocked, Google) == {"finish_reason": "SAFETY", "usage": TokenBudget()}


def test_tokens_that_were_cached_need_not_be_counted(server: Server) -> None:
    """Without a number of them there are none."""
    counted = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    choices = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    made = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunk = {**made, "choices": choices, "usage": counted}
    message: Any = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    start = {"type": "message_start", "message": {**message, "usage": {"input_tokens": 7, "output_tokens": 1}}}

    from_openai = ending(server, Answer(sse(chunk, "[DONE]")), OpenAI)
    from_anthropic = ending(server, Answer([*sse(start, named=True), *Anthropic.end()]), Anthropic)

    assert (
        from_openai["usage"] == from_anthropic["usage"] == TokenBudget(input_tokens=7, output_tokens=5, total_tokens=12)
    )


def test_servers_that_count_less(server: Server) -> None:
    """A server that speaks the same may leave out counts; the answer is whole all the same."""
    end = {"type": "message_delta", "delta": {"stop_reason": "stop"}, "usage": None}
    answers: list[tuple[Any, list[Any]]] = [
        (OpenAI, [*OpenAI.end()[:1], *sse({"choices": [], "usage": {"prompt_tokens": 7}}, "[DONE]")]),
        (Anthropic, sse(end, {"type": "message_stop"}, named=True)),
    ]
    for provider, last in answers:
        found = ending(server, Answer([*provider.texts("On its way."), *last]), provider)

        assert (found["finish_reason"], found["usage"].input_tokens) == ("stop", 7)
    counts = {"prompt_tokens": 7, "completion_tokens": 5}
    last = [*OpenAI.end()[:1], *sse({"choices": [], "usage": counts}, "[DONE]")]
    assert ending(server, Answer([*OpenAI.texts(), *last]), OpenAI)["usage"].total_tokens == 12


def test_what_an_answer_of_anthropic_cites(server: Server) -> None:
    """It is beside the text, also where a server begins the text without one."""
    cited = {"type": "web_search_result_location", "url": "https://e.x", "title": "T", "encrypted_index": "i"}
    started = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    pieces = [
        {"type": "content_block_start", "index": 0, "content_block": started},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "So."}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": cited}},
    ]
    start, *_ = Anthropic.texts()

    found = ending(server, Answer([start, *sse(*pieces, named=True), *Anthropic.end()]), Anthropic)["answer"]

    assert found["content"] == [started, {"type": "text", "text": "So.", "citations": [cited]}]


def test_google_leaves_out_what_it_has_not_counted(server: Server) -> None:
    """A count that is not there is zero."""
    counts = {
        "promptTokenCount": TokenBudget(input_tokens=7),
        "candidatesTokenCount": TokenBudget(output_tokens=7),
        "thoughtsTokenCount": TokenBudget(output_tokens=7),
    }
    for name, budget in counts.items():
        answer = Answer(sse({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {name: 7}}))
        assert ending(server, answer, Google)["usage"] == budget


def test_google_tells_a_wrong_key_by_its_reason(server: Server) -> None:
    """Google answers 400 for a wrong key; it is the key that is to be mended, not the request."""
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    body = {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": details}}
    server.answers = [Answer([str(body).replace("'", '"')], status=400, headers={"content-type": "application/json"})]

    assert type(refused(Google.model(server.url))).__name__ == "LLMAuthenticationError"


class Client:
    """A client that notes whether it was closed, in the way of any of the three."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.aio = SimpleNamespace(aclose=self._aclose)

    async def _aclose(self) -> None:
        self.closed.append("aclose")

    def close(self) -> Any:
        """Note it; what it gives can be awaited."""
        self.closed.append("close")
        return asyncio.sleep(0)


def test_a_client_that_was_handed_in_stays_open() -> None:
    """Who made it closes it."""
    client = Client()
    models = [OpenAILLM("m", client=client), AnthropicLLM("m", client=client), GoogleLLM("m", client=client)]

    async def close() -> None:
        for model in models:
            await model.aclose()

    asyncio.run(close())

    assert client.closed == []


def test_errors_of_our_own_are_not_the_providers(server: Server) -> None:
    """A context that cannot be converted is not a provider that fails."""

    class Broken(ChatContext):
        """A context whose conversion has a fault."""

        def to_openai_messages(self, **options: Any) -> list[dict[str, Any]]:
            """Fail."""
            raise ZeroDivisionError

    async def ask() -> str:
        async with OpenAI.model(server.url) as model:
            try:
                await collect(model.chat(Broken()))
            except ZeroDivisionError:
                return "ours"
            return "nobody's"

    assert asyncio.run(ask()) == "ours"
    assert server.requests == []


def test_what_google_is_sent(server: Server) -> None:
    """Instructions beside the contents, and no tools where there are none; without instructions there is no field."""
    server.answers = [Answer([*Google.texts("ok"), *Google.end()]) for _ in range(2)]
    chat = ChatContext()
    chat.add_message("user", "hi")

    async def ask() -> None:
        async with Google.model(server.url) as model:
            await collect(model.chat(chat))

    asyncio.run(asked(Google.model(server.url)))
    asyncio.run(ask())

    told, untold = (body for _, _, body in server.requests)
    assert told["systemInstruction"]["parts"] == [{"text": "be kind"}]
    assert told["contents"] == untold["contents"] == [{"parts": [{"text": "hi"}], "role": "user"}]
    assert "systemInstruction" not in untold
    assert "tools" not in told


def test_an_image_in_an_output_goes_to_each_gemini(server: Server) -> None:
    """Within the output, where the model takes one there; models before Gemini 3 get it behind, from the user."""
    data = base64.b64encode(b"a picture").decode()
    chat = ChatContext()
    chat.add_function_call("look", "{}", call_id="c1")
    listed = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}]
    chat.add_function_output("look", json.dumps(listed), call_id="c1")
    server.answers = [Answer([*Google.texts("ok"), *Google.end()]) for _ in range(2)]

    for name in ("gemini-3-pro", "gemini-2.5-pro"):
        asyncio.run(collect(GoogleLLM(name, api_key="key-1", base_url=server.url).chat(chat)))

    new, old = ([content["parts"] for content in body["contents"]] for _, _, body in server.requests)
    # The package writes the names of these fields in one or the other way; the API takes both.
    (within,) = new[-1][0]["functionResponse"]["parts"]
    assert [sorted(one.values()) for one in within.values()] == [sorted(["image/png", data])]
    assert "parts" not in old[-2][0]["functionResponse"]
    assert [sorted(one["inlineData"].values()) for one in old[-1]] == [sorted(["image/png", data])]
