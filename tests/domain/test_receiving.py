"""What providers take and give becomes a context again."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from anthropic.types import Message, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from google.genai import types as google
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from refold.chat import ChatContext, ChatMessage, FunctionCall, FunctionCallOutput
from refold.domain.chat.events import ChatItemEvent, Image, MessageAdded
from refold.domain.chat.usage import Usage as Used
from refold.domain.chat.usage import usage_of
from refold.domain.errors import InvalidInputError
from refold.domain.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from tests.domain.formats.provider_contexts import CONTEXTS

Converted = Callable[[ChatContext], Any]
Received = Callable[[Any], ChatContext]
WAYS: dict[str, tuple[Converted, Received]] = {
    "chat completions": (lambda chat: chat.to_openai_messages(), ChatContext.from_openai_messages),
    "responses": (lambda chat: chat.to_openai_responses(), lambda made: ChatContext.from_openai_responses(*made)),
    "anthropic": (lambda chat: chat.to_anthropic_messages(), lambda made: ChatContext.from_anthropic_messages(*made)),
    "google": (lambda chat: chat.to_google_json(), lambda made: ChatContext.from_google_contents(*made)),
}


def talk() -> ChatContext:
    """Return a context with a bit of everything that all providers know."""
    chat = ChatContext()
    chat.add_message("system", "Be brief.")
    chat.add_message("user", "Where is my order?")
    chat.add_function_call("lookup", '{"id":7}', "c1")
    chat.add_function_output("lookup", "shipped", "c1")
    chat.add_message("assistant", "On its way.")
    chat.add_message("user", "Thanks.")
    return chat


@pytest.mark.parametrize("way", WAYS)
def test_what_was_converted_comes_back(way: str) -> None:
    """The same items, in the same order, and the same request again."""
    convert, receive = WAYS[way]
    made = convert(talk())
    back = receive(made)

    assert convert(back) == made
    assert back.is_detached
    kinds = [type(item) for item in back.items if not isinstance(item, ChatMessage)]
    assert kinds == [FunctionCall, FunctionCallOutput]
    assert [message.content for message in back.messages()][-2:] in (
        [["On its way."], ["Thanks."]],
        ["On its way.", "Thanks."],
    )
    assert back.active_config_at()[0] == "Be brief."


@pytest.mark.parametrize("way", WAYS)
def test_what_is_none_is_refused(way: str) -> None:
    """By the converter's own word."""
    with pytest.raises(InvalidInputError):
        WAYS[way][1](([7],) if way != "chat completions" else [7])


# Any form, by `add_messages`

TO: dict[str, Converted] = {name: convert for name, (convert, _) in WAYS.items()} | {
    "items": lambda chat: chat.items,
    "dict": lambda chat: chat.to_dict(),
}
COMMA_LESS = ("data:", "data:image/png")


def recorded(events: list[ChatItemEvent]) -> ChatContext:
    """Return a context of drawn items, each with an id of its own; pictures that no log takes are left out."""
    chat = ChatContext()
    chat.record_items([
        msgspec.structs.replace(event, id=f"i{number}") for number, event in enumerate(events) if not broken(event)
    ])  # fmt: skip
    return chat


def broken(event: ChatItemEvent) -> bool:
    """Return whether an item has a picture that no log takes."""
    parts = event.content if isinstance(event, MessageAdded) else ""
    return any(isinstance(part, Image) and part.image in COMMA_LESS for part in parts)


@settings(max_examples=settings().max_examples * 3)
@given(way=st.sampled_from(sorted(TO)), events=CONTEXTS)
def test_whatever_a_conversion_gives_is_taken(way: str, events: list[ChatItemEvent]) -> None:
    """Added to an empty context, it converts to the same again."""
    made = TO[way](recorded(events))
    chat = ChatContext()
    chat.add_messages(made)

    assert TO[way](chat) == made


CALLED = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"id": 7}'}}
COMPLETION = ChatCompletion.model_validate({
    "id": "x", "created": 1, "model": "m", "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "tool_calls",
                 "message": {"role": "assistant", "content": None, "tool_calls": [CALLED]}}],
})  # fmt: skip
RESPONSE = Response.model_validate({
    "id": "r", "created_at": 1, "model": "m", "object": "response", "parallel_tool_calls": True, "tool_choice": "auto",
    "tools": [], "instructions": "Not said again.",
    "output": [{"type": "reasoning", "id": "rs_1", "summary": []},
               {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": '{"id": 7}'}],
})  # fmt: skip
ANSWER = Message(
    id="m", model="c", role="assistant", type="message", stop_reason="tool_use",
    usage=Usage(input_tokens=1, output_tokens=2),
    content=[ThinkingBlock(type="thinking", thinking="Hm.", signature="s"), TextBlock(type="text", text="I look."),
             ToolUseBlock(type="tool_use", id="c1", name="lookup", input={"id": 7})],
)  # fmt: skip
GENERATED = google.GenerateContentResponse(
    candidates=[google.Candidate(content=google.Content(role="model", parts=[
        google.Part(function_call=google.FunctionCall(id="c1", name="lookup", args={"id": 7}))]))]
)  # fmt: skip


@dataclass
class Plain:
    """A message of a client that uses dataclasses."""

    role: str
    content: str
    tool_calls: list[dict[str, Any]]


class Dumped:
    """A message of a client whose objects have only `to_dict`."""

    content = "unused"

    def to_dict(self) -> dict[str, Any]:
        return {"role": "assistant", "content": "", "tool_calls": [CALLED]}


RESULT = {"role": "tool", "tool_call_id": "c1", "content": "shipped"}
RETURNED = {"type": "function_call_output", "call_id": "c1", "output": "shipped"}
REPLIED = google.FunctionResponse(id="c1", name="lookup", response={"output": "shipped"})
ANSWERS: dict[str, tuple[Any, Any]] = {
    "a completion": (COMPLETION, RESULT),
    "a choice's message": (COMPLETION.choices[0].message, [RESULT]),
    "a response": (RESPONSE, RETURNED),
    "its output": (RESPONSE.output, [RETURNED]),
    "an answer of Anthropic's": (
        ANSWER, [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "shipped"}]}],
    ),
    "its content in a message": (
        [{"role": "assistant", "content": ANSWER.content}], RESULT,
    ),
    "an answer of Google's": (
        GENERATED,
        google.Content(role="user", parts=[google.Part(function_response=REPLIED)]),
    ),
    "messages of LangChain": (
        [AIMessage("I look.", tool_calls=[{"name": "lookup", "args": {"id": 7}, "id": "c1", "type": "tool_call"}])],
        ToolMessage("shipped", tool_call_id="c1"),
    ),
    "LangChain's dicts": (
        [{"type": "ai", "data": {"content": "", "tool_calls": [{"name": "lookup", "args": {"id": 7}, "id": "c1"}]}}],
        [{"type": "tool", "data": {"content": "shipped", "tool_call_id": "c1"}}],
    ),
    "a dataclass": (Plain("assistant", "", [CALLED]), RESULT),
    "an object with to_dict": (Dumped(), RESULT),
}  # fmt: skip


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_clients_return_is_taken(kind: str) -> None:
    """A loop hands in what it got and the output of its tool; the output is named after its call."""
    answer, result = ANSWERS[kind]
    chat = ChatContext()
    chat.add_messages([{"role": "user", "content": "Where is my order?"}])
    chat.add_messages(answer)
    (output,) = chat.add_messages(result)

    (call,) = (item for item in chat.items if isinstance(item, FunctionCall))
    assert (call.name, json.loads(call.arguments), call.call_id) == ("lookup", {"id": 7}, "c1")
    assert isinstance(output, FunctionCallOutput)
    assert (output.name, output.call_id, output.output, output.is_error) == ("lookup", "c1", "shipped", False)
    assert output == chat.items[-1]
    messages, _ = chat.to_anthropic_messages()
    assert messages[-1]["content"][0]["content"] == "shipped"


@pytest.mark.parametrize(
    "answer",
    [
        {"role": "assistant", "content": None, "refusal": "I cannot."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot."}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "", "annotations": []}, {"type": "refusal", "refusal": "I cannot."}]},
        AIMessage([{"type": "refusal", "refusal": "I cannot."}]),
        {"type": "ai", "data": {"content": "", "additional_kwargs": {"refusal": "I cannot."}}},
    ],
)  # fmt: skip
def test_a_refusal_of_a_model_is_what_it_said(answer: Any) -> None:
    """It comes back as it was, and other providers are sent its text."""
    chat = ChatContext()
    chat.add_messages([{"role": "user", "content": "Break in."}, answer, {"role": "user", "content": "Why?"}])

    (_, said, _), _ = chat.to_anthropic_messages()
    assert said in (
        {"role": "assistant", "content": "I cannot."},
        {"role": "assistant", "content": [{"type": "text", "text": "I cannot."}]},
    )
    if isinstance(answer, dict) and "role" in answer:
        back = chat.to_openai_responses()[0] if "type" in answer else chat.to_openai_messages()
        assert back[1] == answer


def test_the_usage_of_an_answer_is_recorded() -> None:
    """With its model, for a text or a call, as it is counted by `store.usage()`."""
    counts = {"usage": {"prompt_tokens": 12, "completion_tokens": 3}, "model": "small-1"}
    said = {"choices": [{"message": {"role": "assistant", "content": "Hi."}}], **counts}
    called = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [CALLED]}}], **counts}
    chat = ChatContext()
    for answer in (said, called, ANSWER):
        chat.add_messages(answer)

    used = [usage_of(chat.recorded_items()[index]) for index in (0, 1, 2)]
    assert [(one.input_tokens, one.output_tokens, one.model) for one in used] == [
        (12, 3, "small-1"), (12, 3, "small-1"), (1, 2, "c"),
    ]  # fmt: skip
    assert "usage" not in str(chat.to_openai_messages())


def test_the_calls_of_an_answer_have_its_model() -> None:
    """Its numbers count once, and its calls count for its model; a call of the next message, of which none is known."""
    calls = [{**CALLED, "id": name} for name in "ab"]
    about = {"usage": {"prompt_tokens": 12}, "model": "small-1"}
    said = {"role": "assistant", "content": "I look.", "tool_calls": calls, **about}
    bare = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
    of_langchain = {"type": "ai", "data": {**bare, "usage_metadata": {"input_tokens": 5}}}
    chat = ChatContext()
    chat.add_messages([said, bare, of_langchain, bare])

    used = [(one.input_tokens, one.model) for one in map(usage_of, chat.recorded_items())]
    assert used == [(12, "small-1"), (0, "small-1"), (0, "small-1"), (0, None), (5, None), (0, None)]


def test_a_usage_that_nobody_knows_is_kept() -> None:
    """An answer with a usage in words of its own is taken: the usage lies beside it, and counts nothing."""
    chat = ChatContext()
    chat.add_messages({"role": "assistant", "content": "Hi.", "model": "m", "usage": {"inputTokens": 5}})

    assert chat.messages()[0].metrics == {"model": "m", "usage": {"inputTokens": 5}}
    assert usage_of(chat.recorded_items()[0]) == Used(model="m")


def test_the_usage_of_an_answer_in_a_list_is_recorded() -> None:
    """As it is for a single answer, also behind the system text, and for each of several."""
    asked, counts = {"role": "user", "content": "Hi?"}, {"usage": {"input_tokens": 12}, "model": "small-1"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi."}], **counts}
    metadata = {"usage_metadata": {"input_tokens": 5}, "response_metadata": {"model_name": "m"}}
    of_langchain = {"type": "ai", "data": {"content": "Hm.", **metadata}}
    chat = ChatContext()
    chat.add_messages([asked, said, asked, ANSWER, of_langchain], system="Be brief.")
    chat.add_messages(said, system="Be quick.")

    used = [(one.input_tokens, one.model) for one in map(usage_of, chat.recorded_items())]
    assert used == [
        (0, None), (0, None), (12, "small-1"), (0, None), (1, "c"), (0, "c"), (5, "m"), (0, None), (12, "small-1"),
    ]  # fmt: skip


def test_one_list_may_hold_several_forms() -> None:
    """Each message is read in its own form, a plain one in that of the message before it."""
    chat = ChatContext()
    failed = ToolMessage("no such order", tool_call_id="c1", status="error")
    chat.add_messages(
        [HumanMessage("Hello."), ANSWER, failed, {"role": "user", "content": "And now?"}, COMPLETION, chat_message()],
        system="Be brief.",
    )

    assert [item.role.value if isinstance(item, ChatMessage) else type(item).__name__ for item in chat.items] == [
        "system", "user", "assistant", "FunctionCall", "FunctionCallOutput", "user", "FunctionCall", "assistant",
    ]  # fmt: skip
    assert getattr(chat.items[4], "is_error", False)
    assert chat.items[-1].id == "mine"


def chat_message() -> ChatMessage:
    """Return an item of Refold's, which keeps its id."""
    return ChatMessage(id="mine", role="assistant", content=["Soon."])  # type: ignore[arg-type]  # as a user writes it


@pytest.mark.parametrize(
    "request_form",
    [
        {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi."}]},
        {"instructions": "Be brief.", "input": "Hi."},
        {"system_instruction": "Be brief.", "contents": [{"role": "user", "parts": [{"text": "Hi."}]}]},
        {"systemInstruction": "Be brief.", "contents": [{"role": "user", "parts": [{"text": "Hi."}]}]},
        {"messages": [SystemMessage("Be brief."), HumanMessage("Hi.")]},
    ],
)
def test_a_request_is_taken_whole(request_form: dict[str, Any]) -> None:
    """With its system text, which is named otherwise by each provider."""
    chat = ChatContext()
    chat.add_messages(request_form)

    assert chat.to_openai_messages()[0] == {"role": "system", "content": "Be brief."}
    assert [message.role.value for message in chat.messages()] == ["system", "user"]


def test_an_answer_of_google_in_the_spelling_of_its_rest_api() -> None:
    """It has its usage and its model, as one in the spelling of the package."""
    content = {"role": "model", "parts": [{"text": "In Lyon."}]}
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 5, "cachedContentTokenCount": 4}
    chat = ChatContext()
    chat.add_messages({"candidates": [{"content": content}], "usageMetadata": counts, "modelVersion": "gemini-x"})

    used = usage_of(chat.recorded_items()[0])
    assert (used.model, used.input_tokens, used.output_tokens, used.cached_tokens) == ("gemini-x", 9, 7, 4)


def said(role: str, *content: Any) -> dict[str, Any]:
    """Return a message of parts."""
    return {"role": role, "content": list(content)}


HELLO = {"role": "user", "content": "Hi."}


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        (None, "messages: found null, expected a list of messages"),
        ("Hi.", "messages: found text, expected a list of messages"),
        ([HELLO, 7], "messages[1]: found a number, expected a message"),
        ([HELLO, {"content": "x"}], "messages[1].role: missing, expected one of system"),
        ([HELLO, said("user", {"type": "text", "text": 5})], "messages[1].content[0].text: found a number"),
        ([HELLO, {"role": "assistant", "tool_calls": [{"id": "c"}]}], "messages[1].tool_calls[0].function: missing"),
        ([said("assistant", {"type": "tool_use"})], "messages[0].content[0].name: missing, expected text"),
        ([{"role": "user", "parts": [{"text": "x"}, 5]}], "messages[0].parts[1]: found a number, expected an object"),
        ([HELLO, {"type": "function_call"}], "messages[1].name: missing, expected text"),
        ({"choices": [{}, {}]}, "messages[0].choices: found 2, expected one: give the message"),
        ([{"output": [HELLO, {"type": "computer_call"}]}], "messages[0].output[1].type: found 'computer_call'"),
        ([{"role": "user", "content": float("nan")}], "messages[0] cannot be stored as JSON"),
        ([{"role": "user", "content": object()}], "messages[0] cannot be stored as JSON: Object of type object"),
    ],
)  # fmt: skip
def test_an_error_is_one_line_that_names_the_place(messages: Any, fault: str) -> None:
    """And nothing is added, not even the messages before it."""
    chat = ChatContext()
    with pytest.raises(InvalidInputError) as caught:
        chat.add_messages(messages)

    assert str(caught.value).startswith(fault)
    assert "\n" not in str(caught.value)
    assert not chat.items
