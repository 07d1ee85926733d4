"""What every adapter does, whichever provider it asks."""

import asyncio
import builtins
import json
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.pairing import PendingRule
from refold.domain.errors import InvalidInputError, PendingCallsError
from refold.domain.llm.base import (
    LLMAuthenticationError,
    LLMError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponse,
    LLMUnavailableError,
    TokenBudget,
    collect,
)
from refold.domain.llm.fallback import FallbackLLM
from refold.infrastructure.models.client_llm import ClientLLM, translated
from refold.infrastructure.models.google_llm import GoogleLLM

from .protocols import PROTOCOLS, Google, OpenAI, Protocol
from .server import Answer, Server, refusal

each_provider = pytest.mark.parametrize("provider", PROTOCOLS, ids=lambda one: one.name)
CALLS = (("c1", "look_up", '{"id":7}'), ("c2", "now", ""))
USAGE = TokenBudget(input_tokens=7, output_tokens=5, total_tokens=12, cached_tokens=3)


def question() -> ChatContext:
    """Return a context of instructions and a question."""
    chat = ChatContext()
    chat.add_message("system", "be kind")
    chat.add_message("user", "hi")
    return chat


async def asked(model: ClientLLM, chat: ChatContext | None = None, **kwargs: Any) -> list[LLMResponse]:
    """Return all pieces of an answer and close the model."""
    async with model:
        return [piece async for piece in model.chat(question() if chat is None else chat, **kwargs)]


def refused(model: ClientLLM, **kwargs: Any) -> LLMError:
    """Return the error that asking gives."""
    with pytest.raises(LLMError) as caught:
        asyncio.run(asked(model, **kwargs))
    return caught.value


@each_provider
def test_text_is_streamed(server: Server, provider: Protocol) -> None:
    """Each piece is handed on, and the last one has no text and says what it cost."""
    server.answers = [Answer([*provider.texts("Hel", "lo"), *provider.end()])]

    *pieces, last = asyncio.run(asked(provider.model(server.url)))

    assert [(piece.content, piece.metadata) for piece in pieces] == [("Hel", None), ("lo", None)]
    assert (last.content, (last.metadata or {})["finish_reason"].lower()) == ("", "stop")
    assert (last.metadata or {})["usage"] == USAGE
    assert "tool_calls" not in (last.metadata or {})
    assert server.requests[0][0].endswith(provider.path)


@each_provider
def test_calls_without_an_output(server: Server, provider: Protocol) -> None:
    """They are sent by the rule that the model was made with; where it refuses, nobody is asked, and none instead."""
    server.answers = [Answer([*provider.texts("ok"), *provider.end()])]
    chat = question()
    chat.add_function_call("pay", "{}", "c1")

    async def ask(pending: PendingRule) -> LLMResponse:
        async with provider.model(server.url, pending=pending) as model:
            return await collect(FallbackLLM([model, model]).chat(chat))

    with pytest.raises(PendingCallsError):
        asyncio.run(ask("refuse"))
    assert server.requests == []
    assert asyncio.run(ask("omit")).content == "ok"
    assert "pay" not in json.dumps(server.body)


@each_provider
def test_pieces_come_before_the_answer_is_complete(server: Server, provider: Protocol) -> None:
    """The first piece is there while the server still holds the connection."""
    server.answers = [Answer(provider.texts("first"), holds=True)]

    async def first() -> str:
        async with provider.model(server.url) as model:
            answer = model.chat(question())
            piece = await anext(answer)
            await answer.aclose()  # type: ignore[attr-defined]
            # Before the model is closed, and the loop ends.
            assert await asyncio.to_thread(server.left.wait, 20), "the connection is still open"
            return piece.content

    assert asyncio.run(first()) == "first"


@each_provider
def test_tool_calls_come_with_the_last_piece(server: Server, provider: Protocol) -> None:
    """Calls are put together, and are what `add_function_call` takes."""
    server.answers = [Answer([*provider.texts("let me see"), *provider.calls(*CALLS), *provider.end()])]
    chat = ChatContext()

    *_, last = asyncio.run(asked(provider.model(server.url)))
    made = [chat.add_function_call(**call) for call in (last.metadata or {})["tool_calls"]]

    assert [(call.call_id, call.name) for call in made] == [("c1", "look_up"), ("c2", "now")]
    assert [json.loads(call.arguments or "{}") for call in made] == [{"id": 7}, {}]


@each_provider
def test_tools_are_told(server: Server, provider: Protocol) -> None:
    """A JSON schema is passed on as the provider wants it."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    server.answers = [Answer([*provider.texts("ok"), *provider.end()])]
    tool = {"name": "look_up", "description": "Find an order.", "parameters": schema}

    asyncio.run(asked(provider.model(server.url), tools=[tool]))

    assert provider.tools_of(server.body) == [("look_up", "Find an order.", schema)]


@each_provider
def test_a_name_that_a_provider_refuses(server: Server, provider: Protocol) -> None:
    """A subtool, such as `shop.look_up`, is sent under a name that fits; its calls have its own name again."""
    tools: list[Any] = [{"name": name, "description": "", "parameters": {}} for name in ("shop.look_up", "now")]
    chat = question()
    for number in range(2):
        model = provider.model(server.url)
        sent = model.function_name("shop.look_up")
        server.answers = [Answer([*provider.calls((f"c{number}", sent, "{}"), ("d", "now", "{}")), *provider.end()])]
        *_, last = asyncio.run(asked(model, chat, tools=tools))
        made = [chat.add_function_call(**call) for call in (last.metadata or {})["tool_calls"]]

        assert [call.name for call in made] == ["shop.look_up", "now"]
        assert [name for name, _, _ in provider.tools_of(server.body)] == [sent, "now"]
        assert sent == ("shop.look_up" if isinstance(model, GoogleLLM) else "shop_look_up")
        assert number == 0 or f'"{sent}"' in json.dumps(server.body.get("messages", server.body.get("contents")))
    with pytest.raises(InvalidInputError, match="'a b' and 'a_b' would both be sent as 'a_b': rename one"):
        asyncio.run(asked(provider.model(server.url), tools=[{"name": "a b"}, {"name": "a_b"}]))


@each_provider
def test_an_unknown_tool_is_refused_before_anything_is_sent(server: Server, provider: Protocol) -> None:
    """The error says which forms there are."""
    with pytest.raises(InvalidInputError, match="_tool_info"):
        asyncio.run(asked(provider.model(server.url), tools=[print]))

    assert server.requests == []


@each_provider
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, LLMRequestError),
        (401, LLMAuthenticationError),
        (403, LLMAuthenticationError),
        (404, LLMRequestError),
        (429, LLMRateLimitError),
        (500, LLMUnavailableError),
        (529, LLMUnavailableError),
    ],
)
def test_errors_say_what_to_do(server: Server, provider: Protocol, status: int, kind: type[LLMError]) -> None:
    """A status becomes the error of what the caller can do about it, with the provider's words."""
    server.answers = [refusal(status, provider.failure(status))]

    error = refused(provider.model(server.url))

    assert (type(error), error.status, error.provider) == (kind, status, provider.name)
    assert f"no: {status}" in str(error)


class OfClientError(Exception):
    """An error as a client raises it, with a status and with what the provider sent along."""

    __module__ = "openai.errors"

    def __init__(self, status: object = None, *, code: object = None, wait: str | None = None, why: str = "no") -> None:
        super().__init__(why)
        self.status_code, self.code = status, code
        self.response = SimpleNamespace(headers={} if wait is None else {"retry-after": wait})


UNAVAILABLE, WRONG = LLMUnavailableError, LLMRequestError
MEANT: list[tuple[Exception, type[LLMError] | None, int | None, float | None]] = [
    *((OfClientError(status), WRONG, status, None) for status in (400, 402, 407, 410, 428, 430, 499)),
    *((OfClientError(status), UNAVAILABLE, status, None) for status in (408, 409, 500, 503)),
    *((OfClientError(status), UNAVAILABLE, None, None) for status in (None, 200, 399, "400")),
    *((OfClientError(status), LLMAuthenticationError, status, None) for status in (401, 403)),
    (OfClientError(400, why="API_KEY_INVALID"), LLMAuthenticationError, 400, None),
    (OfClientError(code=404), WRONG, 404, None),
    (OfClientError(429), LLMRateLimitError, 429, None),
    (OfClientError(429, wait="1.5"), LLMRateLimitError, 429, 1.5),
    (OfClientError(429, wait="Sun, 29 Nov 2026 02:00:00 GMT"), LLMRateLimitError, 429, None),
    (OSError("no way"), UNAVAILABLE, None, None),
    (json.JSONDecodeError("no JSON", "", 0), UNAVAILABLE, None, None),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no UTF-8"), UNAVAILABLE, None, None),
    (ValueError("of the program itself"), None, None, None),
]


@pytest.mark.parametrize(("error", "kind", "status", "seconds"), MEANT)
def test_an_error_of_a_client_has_a_meaning(
    error: Exception, kind: type[LLMError] | None, status: int | None, seconds: float | None
) -> None:
    """By its status; where there is none nobody answered, and an error of the program itself is left alone."""
    found = translated(error, "openai")

    assert type(found) is (kind or type(None))
    assert (getattr(found, "status", None), getattr(found, "retry_after_seconds", None)) == (status, seconds)


@each_provider
def test_how_long_to_wait_is_told(server: Server, provider: Protocol) -> None:
    """The provider's wish is in seconds."""
    server.answers = [refusal(429, provider.failure(429), **{"retry-after": "12"})]

    error = refused(provider.model(server.url))

    assert isinstance(error, LLMRateLimitError)
    assert error.retry_after_seconds == 12


@each_provider
@pytest.mark.parametrize("how", ["connection", "ending", "event"])
def test_an_answer_that_breaks_off_is_an_error(server: Server, provider: Protocol, how: str) -> None:
    """A lost connection, a stream that ends too early, and an error within it: half an answer is never whole."""
    pieces = provider.texts("Hel") + (provider.failing() if how == "event" else [])
    server.answers = [Answer(pieces, breaks_off=how == "connection")]
    model = provider.model(server.url)
    heard: list[str] = []
    model.on("error", heard.append)

    error = refused(model)

    assert isinstance(error, LLMUnavailableError)
    assert heard == [str(error)]


@each_provider
def test_nobody_is_there(provider: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot be reached is unavailable, not unknown."""
    monkeypatch.setattr("asyncio.sleep", _at_once)

    # A port that is bound and does not listen refuses whoever knocks, and nobody else gets it meanwhile.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        error = refused(provider.model(f"http://127.0.0.1:{bound.getsockname()[1]}"))

    assert isinstance(error, LLMUnavailableError)
    assert error.status is None


async def _at_once(_seconds: float, result: Any = None) -> Any:
    return result


@each_provider
def test_an_answer_can_be_stopped(server: Server, provider: Protocol) -> None:
    """The stream ends after what has come, without an error, and the connection is closed."""
    server.answers = [Answer(provider.texts("first"), holds=True)]

    async def stop_after_the_first() -> list[str]:
        texts = []
        async with provider.model(server.url) as model:
            async for piece in model.chat(question()):
                texts.append(piece.content)
                await model.cancel_current_generation()
        return texts

    assert asyncio.run(stop_after_the_first()) == ["first"]
    assert server.left.wait(20)


@each_provider
def test_a_missing_key_names_the_variable(provider: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says where the key was looked for."""
    for variable in provider.variables:
        monkeypatch.delenv(variable, raising=False)

    with pytest.raises(LLMAuthenticationError, match=" or ".join(provider.variables)):
        provider.without_key()


@each_provider
def test_a_key_may_be_in_the_environment(provider: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of the variables will do."""
    for variable in provider.variables:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(provider.variables[-1], "key-2")

    model = provider.without_key()

    asyncio.run(model.aclose())
    assert isinstance(model, ClientLLM)


@each_provider
def test_a_missing_package_names_the_extra(provider: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is the command to run."""
    real, top = builtins.__import__, provider.package.split(".")[0]

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == top:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(ImportError, match=rf'pip install "refold\[{provider.extra}\]"'):
        provider.model("http://127.0.0.1:1")


@each_provider
def test_options_of_the_call_win(server: Server, provider: Protocol) -> None:
    """Options of the adapter go with every request, those of a call over them."""
    server.answers = [Answer([*provider.texts("ok"), *provider.end()]) for _ in range(2)]
    (limit, limit_sent), (stop, stop_sent) = provider.limit, provider.stop
    more: dict[str, Any] = {limit: 200}

    async def twice() -> None:
        async with provider.model(server.url, **{limit: 100, stop: ["END"]}) as model:
            await collect(model.chat(question()))
            await collect(model.chat(question(), **more))

    asyncio.run(twice())
    bodies = [body.get("generationConfig", body) for _, _, body in server.requests]
    assert [body[limit_sent] for body in bodies] == [100, 200]
    assert [body[stop_sent] for body in bodies] == [["END"], ["END"]]


def test_a_fallback_over_two_providers(server: Server) -> None:
    """One provider breaks off in the middle, another answers: one answer, and one event."""
    server.answers = [
        Answer(OpenAI.texts("Hel"), breaks_off=True),
        Answer([*Google.texts("Good ", "day"), *Google.end()]),
    ]
    heard: list[str] = []

    async def ask() -> LLMResponse:
        async with FallbackLLM([OpenAI.model(server.url), Google.model(server.url)]) as model:
            model.on("error", heard.append)
            return await collect(model.chat(question()))

    assert asyncio.run(ask()).content == "Good day"
    assert len(heard) == 1
    assert heard[0].startswith("OpenAI: ")
