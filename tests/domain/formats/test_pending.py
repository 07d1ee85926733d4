"""Calls without an output in a request: a marked stub, left out, or a refusal that lists them; in every format."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from refold.chat import ChatContext
from refold.domain.chat.events import ChatItemEvent
from refold.domain.chat.pairing import items_to_send, pair_calls
from refold.domain.errors import InvalidInputError, PendingCallsError
from refold.domain.formats.anthropic.send import anthropic_messages
from refold.domain.formats.google.send import google_contents
from refold.domain.formats.openai.send import openai_messages
from refold.domain.formats.responses.send import openai_responses_input
from refold.domain.formats.send import NO_OUTPUT
from tests.support.provider_rules import anthropic, google, openai

from .openai_contexts import EDITED, Context
from .provider_contexts import FEW, call, output

Convert = Callable[..., Any]
FORMATS: list[Convert] = [
    lambda chat, **rule: chat.to_openai_messages(**rule),
    lambda chat, **rule: chat.to_openai_responses(**rule)[0],
    lambda chat, **rule: chat.to_anthropic_messages(**rule)[0],
    lambda chat, **rule: chat.to_google_json(**rule)[0],
    lambda chat, **rule: [one.model_dump() for one in asyncio.run(chat.to_google_contents(**rule))[0]],
]
each_format = pytest.mark.parametrize("convert", FORMATS, ids=["openai", "responses", "anthropic", "google", "types"])


@pytest.fixture
def stopped() -> ChatContext:
    """A conversation that stopped when one of two calls had run."""
    chat = ChatContext()
    chat.add_message("user", "Where is it?")
    chat.add_function_call("look", "{}", "c1")
    chat.add_function_call("pay", '{"sum": 7}', "c2")
    chat.add_function_output("look", "found", "c1")
    return chat


@each_format
def test_a_call_that_waits(stopped: ChatContext, convert: Convert) -> None:
    """Without a wish a stub stands for its output, marked as one; or the call is left out, and the other one stays."""
    stubbed, left = str(convert(stopped)), str(convert(stopped, pending="omit"))

    assert NO_OUTPUT in stubbed
    assert NO_OUTPUT.startswith("[No output was recorded")
    assert convert(stopped, pending="stub") == convert(stopped)
    assert ("pay" in stubbed, "pay" in left, NO_OUTPUT in left) == (True, False, False)
    assert ("look" in left, "found" in left) == (True, True)


@each_format
def test_a_refusal_lists_what_waits(stopped: ChatContext, convert: Convert) -> None:
    """As long as something waits; also of a view of the past. A rule that there is not is refused."""
    with pytest.raises(PendingCallsError, match=r"pay \(c2\)") as refused:
        convert(stopped.readonly, pending="refuse")
    with pytest.raises(InvalidInputError, match="'stub', 'omit' or 'refuse'"):
        convert(stopped, pending="drop")
    [waiting] = stopped.pending_calls()
    stopped.answer_call("c2", "paid")

    assert refused.value.calls == waiting.calls
    assert convert(stopped, pending="refuse") == convert(stopped)


def test_a_refusal_of_many_names_a_few() -> None:
    """And says how many more there are."""
    items = [call(f"c{number}") for number in range(7)]

    with pytest.raises(PendingCallsError, match=r"f \(c4\) and 2 more") as refused:
        items_to_send(items, "refuse")

    assert [one.call_id for one in refused.value.calls] == [f"c{number}" for number in range(7)]


def test_all_calls_of_an_answer_are_left_out() -> None:
    """Then what was said with them stays, and an exact export loses them too."""
    asked = {"role": "assistant", "content": "One moment.", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ]}  # fmt: skip
    chat = ChatContext.from_openai_messages([{"role": "user", "content": "hi"}, asked])

    assert chat.to_openai_messages(pending="omit")[1:] == [{"role": "assistant", "content": "One moment."}]
    assert chat.to_openai_messages(exact=True, pending="omit") == chat.to_openai_messages(pending="omit")


@FEW
@given(items=EDITED)
def test_what_is_left_is_valid(items: Context) -> None:
    """Whatever was edited: no call stands without its own output, and no other output is lost."""
    left = items_to_send(items, "omit")
    entries, _ = openai_responses_input(left)
    asked, system = anthropic_messages(left)

    assert len(pair_calls(left).output_of) == len(pair_calls(items).output_of)
    assert NO_OUTPUT not in str([openai_messages(left), entries, asked, google_contents(left)[0]])
    assert openai.faults(openai_messages(left)) == []
    assert openai.responses_faults(entries) == []
    assert anthropic.faults(asked, system) == []
    assert google.faults(google_contents(left)[0]) == []


@each_format
def test_decided_calls_are_valid(stopped: ChatContext, convert: Convert) -> None:
    """A rejected call says by whom and why, a changed one has its new arguments; nothing else has to be sent."""
    stopped.add_function_call("pay", '{"sum": 800}', "c3")
    stopped.approvals.reject("c2", by="mia", because="too much")
    stopped.approvals.change("c3", {"sum": 9}, by="mia")
    stopped.answer_call("c3", "paid 9")
    sent = str(convert(stopped, pending="refuse"))

    assert "rejected by mia and did not run. Reason: too much" in sent
    assert ("800" in sent, "9" in sent, NO_OUTPUT in sent) == (False, True, False)
    assert openai.faults(stopped.to_openai_messages()) == []
    assert openai.responses_faults(stopped.to_openai_responses()[0]) == []
    assert anthropic.faults(*stopped.to_anthropic_messages()) == []
    assert google.faults(stopped.to_google_json()[0]) == []


def test_an_imported_call_that_was_changed() -> None:
    """The message it came in is not sent as it came, whatever shape it had."""
    calls = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "OLD"}} for name in "ab"]
    shapes: list[dict[str, Any]] = [{}, {"name": "x"}, {"content": "hm", "refusal": None}, {"more": [1], "audio": 1}]
    for shape in shapes:
        chat = ChatContext.from_openai_messages([{"role": "assistant", "content": None, "tool_calls": calls, **shape}])
        chat.approvals.change("b", '{"new": 1}', by="mia")
        messages = chat.to_openai_messages()

        for sent in (messages, chat.to_openai_messages(exact=True)):
            made = [one for message in sent for one in message.get("tool_calls", ())]
            assert [one["function"]["arguments"] for one in made] == ["OLD", '{"new": 1}']
        assert openai.faults(messages) == []


def test_stubs_are_of_calls_alone() -> None:
    """An output that came late answers its call, so nothing waits."""
    items: list[ChatItemEvent] = [call("c1"), call("c2"), output("c2"), output("c1")]

    assert items_to_send(items, "omit") == items
    assert NO_OUTPUT not in str(openai_messages(items))


def test_an_output_answers_the_first_call_of_the_newest_answer() -> None:
    """Where calls have one call id: those of one answer in their order, those of an older answer behind them."""
    chat = ChatContext()
    chat.add_function_call("old", "{}", "c1")
    chat.add_message("user", "Again.")
    chat.add_function_call("look", "{}", "c1")
    chat.add_function_call("pay", "{}", "c1")
    for text in ("first", "second", "third"):
        chat.add_function_output("tool", text, "c1")

    assert pair_calls(chat.recorded_items()).output_of == {2: 4, 3: 5, 0: 6}
