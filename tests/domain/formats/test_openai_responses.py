"""From items to the input of OpenAI's Responses API, and back."""

import json
from typing import Any

import msgspec
import pytest
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import FunctionCalled, FunctionReturned, Image, MessageAdded, Origin, Spoken
from refold.domain.errors import InvalidInputError
from refold.domain.formats.openai.send import openai_messages
from refold.domain.formats.responses.receive import items_from_session
from refold.domain.formats.responses.send import entries_of, openai_responses_input
from refold.domain.formats.responses.source_shape import LEFT_OUT, left_out
from refold.domain.formats.send import NO_OUTPUT
from tests.domain.formats.openai_contexts import ANSWER, LONG, PICTURE, REASONING, answering, asking, imported, received
from tests.importing.shapes import asked, call, said

Entry = dict[str, Any]
GO_ON: Entry = {"role": "user", "content": "go on"}
SEARCH: Entry = {
    "type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"},
}  # fmt: skip


def sent(chat: ChatContext) -> list[Entry]:
    """Return the input that a context stands for."""
    return openai_responses_input(chat.recorded_items())[0]


def test_messages_calls_and_outputs_are_entries() -> None:
    """An answer in parts has an id of its kind and says that it is complete; plain text needs neither."""
    chat = ChatContext()
    chat.add_message("user", "Where is it?", message_id="m1")
    chat.add_message("assistant", "One moment.", message_id="m2")
    chat.add_function_call("look_up", "{}", call_id="c1")
    chat.add_function_output("look_up", "found", "c1")

    question, answer, *exchange = sent(chat)
    text = {"type": "output_text", "text": "One moment.", "annotations": []}
    assert question == {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where is it?"}]}
    assert (answer.pop("id")[:4], len(answer)) == ("msg_", 4)
    assert answer == {"type": "message", "role": "assistant", "status": "completed", "content": [text]}
    assert exchange == [asking("c1"), answering("c1")]


@pytest.mark.parametrize(
    "entry",
    [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes"},
        {"role": "system", "content": ""},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
        {"role": "user", "content": "hi", "more": {"id": [1]}},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_file", "file_id": "f"}]},
        {"type": "function_call_output", "output": [{"type": "input_text", "text": "a"}], "call_id": "c"},
    ],
)
def test_entries_of_a_session_lack_what_they_lacked(entry: Entry) -> None:
    """Whether that is all that is kept beside them or not, at each read."""
    items = items_from_session([entry])
    for _ in range(2):
        (came,) = [one for item in items if isinstance(item, Spoken) for one in entries_of(item)]
        assert came == entry
        came["content"] = "changed"


@pytest.mark.parametrize(
    "rest",
    [
        b'{"responses":{"patch":{"drop":["id"],"set":{"x":1}}}}',
        b'{"responses":{"patch":{"drop":[1]}}}',
        b'{"responses":{"patch":{"drop":["id"]},"after":[]}}',
        b'{"responses":{"patch":{"drop":["id"]}},"legacy":true}',
        b'{"responses":{"patch":{"drop":["id"]}},"responses":1}',
    ],
)
def test_only_the_fields_that_an_entry_lacks_are_said_in_short(rest: bytes) -> None:
    """What says more is read as a whole."""
    assert rest.startswith(LEFT_OUT)
    assert left_out(rest) == ()
    assert left_out(b'{"responses":{"patch":{"drop":["id","type"]}}}') == ("id", "type")


def test_images_are_entries_of_users() -> None:
    """An image always has its detail here; in an answer a text stands for it."""
    parts = ("look", Image(id="i", image="https://e.x/a.png"))
    items = [MessageAdded(id=role, created_at=1.0, role=role, content=parts) for role in ("user", "assistant")]

    question, answer = openai_responses_input(items)[0]
    assert question["content"] == [{"type": "input_text", "text": "look"}, PICTURE]
    assert answer["content"][1]["text"] == "[Image i is left out: images are taken from users only]"


def test_instructions_go_beside_the_input() -> None:
    """Those in force, once, whatever said them."""
    chat = ChatContext()
    chat.add_message("system", "Be kind.")
    chat.add_message("user", "hi")
    chat.add_config_update(instructions="Be brief.")

    entries, instructions = openai_responses_input(chat.recorded_items())
    assert ([entry["role"] for entry in entries], instructions) == (["user"], "Be brief.")


def test_call_ids_are_unique_in_the_whole_input() -> None:
    """Outputs go with the call they answer; an orphan is left out, and a call without an output answered."""
    chat = ChatContext()
    for output in ("one", "two"):
        chat.add_function_call("f", "{}", call_id="a")
        chat.add_message("user", "hi")
        chat.add_function_output("f", output, "a")
    chat.add_function_output("f", "orphan", "a")
    chat.add_function_call("f", "{}", call_id=LONG)

    pairs = [(entry["call_id"], entry.get("output")) for entry in sent(chat) if "call_id" in entry]
    assert pairs[:4] == [("a", None), ("a", "one"), ("a-2", None), ("a-2", "two")]
    assert pairs[5] == (pairs[4][0], NO_OUTPUT)


@pytest.mark.parametrize("instructions", [None, "Be kind."])
def test_what_the_api_gave_comes_back_as_it_came(instructions: str | None) -> None:
    """With ids, reasoning, the calls of its own tools, instructions in the input, and outputs in their order."""
    entries = [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "D"}],
            "status": "completed",
        },
        GO_ON,
        SEARCH,
        REASONING,
        {**ANSWER, "status": "incomplete", "phase": "commentary"},
        {**REASONING, "id": "rs_2"},
        asking("a", id="fc_1", status="completed"),
        asking("b", id="fc_2"),
        answering("b", [{"type": "input_text", "text": "x"}, PICTURE, {"type": "input_text", "text": "y"}]),
        answering("a", id="fco_1"),
        {"type": "message", "role": "user", "content": [{"type": "input_file", "file_id": "file_1"}, PICTURE]},
    ]
    items = received(entries, instructions)

    assert openai_responses_input(items) == (entries, instructions)
    call, output = items[-4], items[-3]
    assert isinstance(call, FunctionCalled)
    assert isinstance(output, FunctionReturned)
    assert (call.name, output.name, output.output) == ("look_up", "look_up", "xy")


def test_little_lies_beside_an_item() -> None:
    """What its plain form says is not said twice: where an output was cut, and its parts that are no text."""
    text = [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": ""}]
    items = received([GO_ON, asking("a"), answering("a", [*text, PICTURE]), asking("b"), answering("b")])
    _, call, cut, _, plain = (item.origin.rest if item.origin else b"" for item in items)

    assert json.loads(cut) == {"responses": {"cuts": [3, 0], "parts": [[2, PICTURE]]}}
    assert (call, plain) == (b"", b"")


@pytest.mark.parametrize("beside", [{"before": [7]}, {"after": ["x"]}, {"before": 7}, 7])
def test_what_no_import_keeps_beside_an_item_is_ignored(beside: Any) -> None:
    """Another program may have written it."""
    (item,) = received([GO_ON])
    item = msgspec.structs.replace(item, origin=Origin(rest=msgspec.json.encode({"responses": beside})))

    assert openai_responses_input([item])[0] == [{"type": "message", **GO_ON}]
    assert isinstance(item, MessageAdded)
    assert entries_of(item) == [{"type": "message", **GO_ON}]


def test_entries_that_are_apart_are_sent_to_their_api_alone() -> None:
    """What a session keeps of reasoning is no message for anybody else."""
    items = items_from_session([GO_ON, REASONING, ANSWER])
    chat = ChatContext()
    chat.record_items(items)

    assert chat.to_openai_responses()[0] == [GO_ON, REASONING, ANSWER]
    assert [message["role"] for message in chat.to_openai_messages()] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("entry", "is_interrupted"),
    [
        ({"role": "assistant", "content": "plain"}, False),
        (ANSWER, False),
        ({**ANSWER, "status": "incomplete"}, True),
        ({**GO_ON, "status": "incomplete"}, False),
    ],
)
def test_an_answer_that_was_cut_off(entry: dict[str, Any], is_interrupted: bool) -> None:
    """It was interrupted where its status says that it is not complete."""
    (item,) = received([entry])

    assert isinstance(item, MessageAdded)
    assert item.interrupted is is_interrupted


def test_reasoning_leaves_with_what_it_led_to() -> None:
    """The API refuses reasoning without the item that followed it; at the end it is kept, and not sent."""
    items = received([GO_ON, REASONING, asking("a"), answering("a"), {**REASONING, "id": "rs_2"}])

    assert openai_responses_input(items)[0] == [GO_ON, REASONING, asking("a"), answering("a")]
    assert openai_responses_input([items[0]])[0] == [GO_ON]
    assert items[-1].origin is not None
    assert b"rs_2" in items[-1].origin.rest


def test_reasoning_that_led_to_nothing() -> None:
    """As of an answer that was at its limit before it said a word: it is not sent, but that of a search is."""
    idle = [{**REASONING, "id": f"rs_{number}"} for number in (2, 3)]
    entries = [GO_ON, *idle, GO_ON, REASONING, SEARCH]

    for items in (received(entries), items_from_session(entries)):
        assert openai_responses_input(items)[0] == [GO_ON, GO_ON, REASONING, SEARCH]


def test_calls_at_the_end_of_the_output_are_kept() -> None:
    """What ran at OpenAI after the last message stays behind it."""
    assert openai_responses_input(received([GO_ON, SEARCH]))[0] == [GO_ON, SEARCH]


def test_what_was_imported_twice_has_its_ids_once() -> None:
    """A message gets another id, a call goes without, and reasoning is not said again."""
    entries = [REASONING, ANSWER, asking("a", id="fc_1"), answering("a")]
    twice = openai_responses_input([*received(entries), *received(entries)])[0]

    assert twice[:4] == entries
    assert twice[4] == {**ANSWER, "id": twice[4]["id"]} != ANSWER
    assert twice[5:] == [asking("a-2"), answering("a-2")]


def test_an_entry_that_would_be_refused_is_made_anew() -> None:
    """Its neighbours stay as they came."""
    odd = {**ANSWER, "content": [{"type": "refusal"}]}

    first, second = openai_responses_input(received([odd, GO_ON]))[0]
    assert (first, second) == ({"type": "message", "role": "assistant", "content": "", **first}, GO_ON)
    assert "refusal" not in str(first)


def test_entries_of_other_models() -> None:
    """The Agents SDK writes them with ids and data of its own; the API refuses these; a session keeps them."""
    foreign = {"id": "__fake_id__", "provider_data": {"model": "m"}}
    entries = [{**REASONING, **foreign}, {**ANSWER, **foreign}, asking("a", **foreign), answering("a")]

    for items in (received(entries), items_from_session(entries)):
        answer, *others = openai_responses_input(items)[0]
        assert answer == {**ANSWER, "id": answer["id"]}
        assert others == [asking("a"), answering("a")]
        assert [entry for item in items if isinstance(item, Spoken) for entry in entries_of(item)] == entries
    entries = [{**GO_ON, "id": "a1b2"}, asking("a", id=""), answering("a")]
    assert openai_responses_input(received(entries))[0] == [GO_ON, asking("a"), answering("a")]
    file = {"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}
    assert openai_responses_input(received([{**file, "id": "a1b2"}]))[0] == [file]


def test_chat_messages_and_entries_are_one_context() -> None:
    """What came in through one format goes out through the other."""
    messages = [said("system", "S"), said("user", "hi"), asked(call("a"), content="One moment.")]
    entries = [
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "message", "role": "assistant", "content": "One moment."},
        asking("a"),
        answering("a", NO_OUTPUT),
    ]

    assert openai_responses_input(imported(messages)) == (entries, "S")
    assert openai_messages(received(entries, "S"))[:3] == messages


def test_objects_of_the_package_are_read_too() -> None:
    """A response's output goes into a context as it comes."""
    output = [ResponseOutputMessage.model_validate(ANSWER), ResponseFunctionToolCall.model_validate(asking("a"))]

    assert openai_responses_input(received(output))[0] == [ANSWER, asking("a"), answering("a", NO_OUTPUT)]


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (7, "entries[0]: found a number, expected an object"),
        ({"type": "computer_call"}, "entries[0].type: found 'computer_call', expected one of message"),
        ({"type": "function_call", "name": "f", "arguments": ""}, ".call_id: missing, expected text"),
        ({"role": "tool", "content": ""}, ".role: found 'tool', expected one of system"),
        ({"role": "user"}, ".content: found null, expected text or a list of parts"),
        ({"role": "user", "content": [{"type": "input_text"}]}, ".content[0].text: missing, expected text"),
        ({"type": "function_call_output", "call_id": "a", "output": 7}, ".output: found a number"),
        ({"role": "user", "content": "\ud800"}, "entries[0]"),
        (REASONING, "there is no message and no call that the reasoning item could be kept beside"),
    ],
)
def test_what_cannot_be_kept_is_named(entry: Any, fault: str) -> None:
    """Where it stands, what was found, what was expected."""
    with pytest.raises(InvalidInputError) as caught:
        received([entry])

    assert fault in str(caught.value)
