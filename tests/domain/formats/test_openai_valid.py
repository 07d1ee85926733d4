"""Whatever a context holds, what OpenAI is sent is valid: by the official types, and by a checker of the rules."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from refold.domain.chat.pairing import pair_calls
from refold.domain.formats.openai.send import openai_messages
from refold.domain.formats.responses.send import openai_responses_input
from tests.domain.formats.openai_contexts import (
    EDITED,
    PIECES,
    Context,
    check_input_types,
    check_message_types,
    imported,
    received,
)
from tests.domain.formats.provider_contexts import CONTEXTS, FEW, MANY
from tests.domain.strategies import PROPERTY
from tests.importing.openai_strategies import CONVERSATION
from tests.importing.shapes import answered, asked, call, said
from tests.support.project import ROOT
from tests.support.provider_rules.openai import faults, responses_faults

REAL = ROOT.parent / "shared" / "data" / "tau_airline_100.json"


@MANY
@given(items=CONTEXTS, reasoning_model=st.booleans())
def test_messages_are_valid(items: Context, reasoning_model: bool) -> None:
    """Contexts made by calls, of every kind of item, in any order."""
    messages = openai_messages(items, reasoning_model=reasoning_model)

    check_message_types(messages)
    assert faults(messages) == []


@MANY
@given(items=EDITED)
def test_messages_of_imports_are_valid(items: Context) -> None:
    """Imported messages, sound and unsound, with items taken out and put elsewhere."""
    messages = openai_messages(items)

    check_message_types(messages)
    assert faults(messages) == []


@PROPERTY
@given(messages=CONVERSATION)
def test_messages_of_any_import_are_valid(messages: list[Any]) -> None:
    """Conversations drawn without mercy."""
    sent = openai_messages(imported(messages))

    check_message_types(sent)
    assert faults(sent) == []


@FEW
@given(items=CONTEXTS)
def test_inputs_are_valid(items: Context) -> None:
    """Contexts made by calls, for the Responses API."""
    entries, _ = openai_responses_input(items)

    check_input_types(entries)
    assert responses_faults(entries) == []


@FEW
@given(items=EDITED)
def test_inputs_of_imports_are_valid(items: Context) -> None:
    """Imported messages and entries, with items taken out and put elsewhere, for the Responses API."""
    entries, _ = openai_responses_input(items)

    check_input_types(entries)
    assert responses_faults(entries) == []


@FEW
@given(items=EDITED)
def test_valid_messages_come_back_as_they_are(items: Context) -> None:
    """What is sent can be read back, and is then sent the same again, whatever it is made of."""
    messages = openai_messages(items)

    assert openai_messages(imported(messages)) == messages


@FEW
@given(items=EDITED)
def test_valid_inputs_come_back_as_they_are(items: Context) -> None:
    """Likewise for the Responses API, with its instructions."""
    entries, instructions = openai_responses_input(items)

    if any(entry.get("type", "message") in ("message", "function_call") for entry in entries):
        assert openai_responses_input(received(entries, instructions)) == (entries, instructions)


@FEW
@given(items=CONTEXTS)
def test_outputs_are_sent_once_and_with_their_calls(items: Context) -> None:
    """Every output that answers a call is there, in its order among those of its batch; no other is."""
    answers = [message["content"] for message in openai_messages(items) if message["role"] == "tool"]
    output_of = pair_calls(items).output_of

    kept = sorted(items[index].output for index in output_of.values())  # type: ignore[union-attr]
    assert sorted(answer for answer in answers if not answer.startswith("[No output was recorded")) == kept


@pytest.mark.skipif(not REAL.exists(), reason="shared/data is not beside this checkout")
def test_real_runs_are_valid_and_stay_as_they_came() -> None:
    """A hundred of them, in which 38 call ids repeat; as input of the Responses API they are valid too."""
    for run in json.loads(REAL.read_bytes()):
        items = imported(run["traj"])
        entries, instructions = openai_responses_input(items)

        assert faults(run["traj"]) == []
        assert openai_messages(items) == openai_messages(items, exact=True) == run["traj"]
        assert responses_faults(entries) == []
        assert instructions == run["traj"][0]["content"]


def test_the_pieces_are_not_all_valid() -> None:
    """The checks have something to find: taken as they are, most pieces would be refused."""
    refused = [piece for piece in PIECES if faults(openai_messages(piece, exact=True))]

    assert len(refused) > len(PIECES) / 3


@pytest.mark.parametrize(
    "messages",
    [
        [said("user", [{"type": "text"}])],
        [said("user", [{"type": "image_url", "image_url": "u"}])],
        [asked({"id": "a", "type": "function", "function": {"name": "f"}})],
        [{"role": "tool", "content": "x"}],
    ],
)
def test_the_types_refuse(messages: Any) -> None:
    """The official types are looked at to the last part: they can fail too."""
    with pytest.raises(ValidationError):
        check_message_types(messages)


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([asked(call("a"))], "no outputs of ['a']"),
        ([asked(call("a")), said("user"), answered("a")], "user comes before the outputs"),
        ([answered("a")], "no call 'a' waits"),
        ([asked(call("a")), answered("a"), answered("a")], "no call 'a' waits"),
        ([asked(call("a"), call("a")), answered("a"), answered("a")], "a call id twice"),
        ([asked(call("x" * 41)), answered("x" * 41)], "bad call id"),
        ([asked(call("a", "two words")), answered("a")], "bad function name"),
        ([said("assistant", None)], "content is NoneType"),
        ([said("user", [])], "content is an empty list"),
        ([said("assistant", [{"type": "image_url", "image_url": {"url": "u"}}])], "no 'image_url' here"),
        ([said("user", name="a b")], "bad name"),
        ([said("somebody")], "no role"),
        ([{"role": "function", "name": "f", "content": ""}], "no function_call of 'f'"),
        ([said("assistant", "x", tool_calls=[])], "tool_calls is empty"),
    ],
)
def test_the_checker_refuses(messages: Any, fault: str) -> None:
    """Each rule finds what breaks it."""
    assert any(fault in found for found in faults(messages))


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([{"type": "function_call", "call_id": "a", "name": "f", "arguments": ""}], "no output for call 'a'"),
        ([{"type": "function_call_output", "call_id": "a", "output": ""}], "no call 'a' before"),
        ([{"type": "function_call", "call_id": "a", "name": "f g"}], "bad function name"),
        ([{"type": "function_call", "call_id": "a", "name": "f"}] * 2, "the call id 'a' twice"),
        ([{"type": "function_call_output", "call_id": "x" * 65, "output": ""}], "bad call id"),
        ([{"role": "assistant", "content": [{"type": "input_text", "text": ""}]}], "no 'input_text' here"),
        ([{"role": "assistant", "content": "", "id": "x"}], "bad id"),
        ([{"role": "user", "content": []}], "empty list"),
        ([{"role": "tool", "content": ""}], "no role"),
        ([{"type": "reasoning", "id": "rs"}], "reasoning without"),
        ([{"type": "reasoning", "id": "rs"}, {"role": "user", "content": "x"}], "reasoning without"),
        ([{"role": "user", "content": "", "id": "msg_1"}] * 2, "the item id 'msg_1' twice"),
    ],
)
def test_the_checker_of_inputs_refuses(entries: Any, fault: str) -> None:
    """Each rule of the Responses API finds what breaks it."""
    assert any(fault in found for found in responses_faults(entries))
