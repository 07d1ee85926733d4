"""
Each deviation on its own: where it applies it makes the answer that it is there for, and where it does not, nothing.

Those of the conversions are shown by recorded cases, which have names; the others by contexts made for them.
"""

import functools
import json
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from refold.domain.errors import DuplicateItemError
from tests.support.deviations import anthropic, caching
from tests.support.deviations.forking import copied, fork_filtered
from tests.support.deviations.joining import inserted, merged, result_merged
from tests.support.deviations.plain_items import Item
from tests.support.deviations.refusals import refusal_of
from tests.support.deviations.summarising import summarized
from tests.support.deviations.switches import UNEXPLAINED
from tests.support.deviations.truncating import truncated
from tests.support.parity.chats import replayed_chats
from tests.support.parity.contexts import chat_of, plain
from tests.support.parity.conversions import questions_of, replayed_conversions
from tests.support.parity.verdicts import EQUAL, weighed
from tests.support.project import ROOT

CONVERTERS = ROOT / "tests" / "golden" / "videosdk_converters.json"


def said(item_id: str, role: str = "user", content: Any = "text", at: float = 0, **fields: Any) -> Item:
    """Return a message in the seed's plain form."""
    message = {"type": "message", "id": item_id, "created_at": at, "agent_id": None, "role": role}
    return {**message, "content": content, "interrupted": False, "extra": {}, **fields}


def called(item_id: str, call_id: str = "c", agent_id: str | None = None) -> Item:
    """Return a call in the seed's plain form."""
    call = {"type": "function_call", "id": item_id, "created_at": 0, "agent_id": agent_id}
    return {**call, "name": "f", "arguments": "{}", "call_id": call_id, "metadata": None}


def returned(item_id: str, call_id: str = "c", agent_id: str | None = None) -> Item:
    """Return an output in the seed's plain form."""
    output = {"type": "function_call_output", "id": item_id, "created_at": 0, "agent_id": agent_id}
    return {**output, "name": "f", "output": "r", "call_id": call_id, "is_error": False}


def configured(item_id: str, instructions: str | None, at: float = 0) -> Item:
    """Return a config update in the seed's plain form."""
    update = {"type": "agent_config_update", "id": item_id, "created_at": at, "agent_id": None}
    return {**update, "instructions": instructions, "tools": None}


def ids(items: Sequence[Item]) -> str:
    """Return the ids of items in one text; `+` stands for one that nobody knows beforehand."""
    return "".join(item["id"] or "+" for item in items)


SYSTEM, USER, LATER = said("s", "system"), said("u", at=1), said("v", at=3)
ANSWER, TOLD = (
    said("a", "assistant", at=2),
    said("t", "assistant", ["[Conversation Summary]\nT"], extra={"summary": True}),
)
PAIR = [called("c"), returned("r")]
ASKED: list[tuple[str, Any, list[Any], tuple[str, str], list[Any], str]] = [
    # number, model, where it applies, what comes out without and with it, where it does not, what comes out there
    ("V2.22", inserted, [[USER], [USER, LATER]], ("uuv", "uv"), [[USER], [LATER]], "uv"),
    ("V4.7", functools.partial(copied, agent_id="x"), [[called("c", agent_id="x"), returned("r")]], ("c", "cr"),
     [[called("c", agent_id="x"), returned("r", agent_id="x")]], "cr"),
    ("V4.7", functools.partial(copied, agent_id="x"), [[called("c"), returned("r", agent_id="x")]], ("r", ""),
     [[returned("r", agent_id="x")]], "r"),
    ("V4.14", functools.partial(fork_filtered, recent_turns=1), [[configured("k", "K"), USER, LATER]], ("v", "v+"),
     [[SYSTEM, USER, LATER]], "sv"),
    ("V4.15", functools.partial(fork_filtered, recent_turns=1), [[USER, called("c"), LATER, returned("r")]],
     ("vr", "v"), [[USER, LATER, *PAIR]], "vcr"),
    ("V5.3", merged, [[LATER, USER], []], ("uv", "vu"), [[USER, LATER], [ANSWER]], "uav"),
    ("V5.3", merged, [[], [{**called("c"), "created_at": 2}, returned("r")]], ("rc", "cr"), [[], PAIR], "cr"),
    ("V5.3", merged, [[ANSWER, {**called("c"), "created_at": 1}], [*PAIR]], ("rca", "acr"), [[], PAIR], "cr"),
    ("V5.4", merged, [[], [USER, USER]], ("uu", "u"), [[], [USER, LATER]], "uv"),
    ("V5.6", merged, [[], [SYSTEM, configured("k", "K"), USER]], ("sku", "u"), [[SYSTEM], [USER]], "su"),
    ("V5.8", functools.partial(result_merged, agent_id="x"), [[ANSWER], [ANSWER]], ("aa", "a"),
     [[USER], [ANSWER]], "ua"),
    ("V6.5", functools.partial(truncated, max_items=0), [[USER, called("c")]], ("u", "uc"), [[called("c"), USER]], "u"),
    ("V6.5", functools.partial(truncated, max_items=9), [[called("c"), USER, called("d", "d")]], ("u", "ud"),
     [[USER, *PAIR]], "ucr"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "model", "where", "answers", "elsewhere", "answer"), ASKED)
def test_a_repair_of_lists(
    number: str, model: Any, where: list[Any], answers: tuple[str, str], elsewhere: list[Any], answer: str
) -> None:
    """What is left of a context, or comes to it, without the repair and with it."""
    assert (ids(model(*where, on=())), ids(model(*where, on=(number,)))) == answers
    assert ids(model(*elsewhere, on=())) == ids(model(*elsewhere, on=(number,))) == answer


def test_the_forks_own_config() -> None:
    """V4.14: it says what is in force in the parent, and only what else would not be."""
    own = fork_filtered([SYSTEM, configured("k", "K"), USER, LATER], recent_turns=1, on=("V4.14",))[-1]

    assert (own["type"], own["instructions"], own["tools"]) == ("agent_config_update", "K", None)


@pytest.mark.parametrize(
    ("number", "items", "without", "with_it"),
    [
        ("V7.8", [TOLD, USER, LATER], ("tSUMv", "User: text"), ("SUMv", "[Previous Summary]: T\nUser: text")),
        ("V7.9", [USER, called("c"), LATER, returned("r")], ("SUMvr",) * 2, ("cSUMvr",) * 2),
        ("V7.8", [USER, LATER, TOLD], ("SUMvt", "User: text"), ("SUMvt", "User: text")),
        ("V7.9", [USER, *PAIR, LATER], ("SUMv",) * 2, ("SUMv",) * 2),
    ],
)
def test_a_repair_of_summaries(number: str, items: list[Item], without: Any, with_it: Any) -> None:
    """What is left, and for earlier summaries what the model is asked; the last two show where nothing is repaired."""
    for on, expected in (((), without), ((number,), with_it)):
        left, asked = summarized(items, keep_recent_turns=1, answer="A", on=on)
        assert (ids(left), asked[0] if number == "V7.8" else ids(left)) == expected


IMAGE = {"type": "image", "id": "i", "inference_detail": "auto"}


@pytest.mark.parametrize(
    ("number", "error", "items"),
    [
        ("V1.15", DuplicateItemError, [USER, said("u", content="other")]),
        ("V1.11c", ValueError, [said("m", content=[{**IMAGE, "image": "data:nothing"}])]),
        (None, None, [USER, USER]),
        (None, None, [USER, said("u", at=9)]),
        (None, None, [said("m", content=[{**IMAGE, "image": "https://e.x/a.png"}])]),
    ],
)
def test_refusals(number: str | None, error: type[Exception] | None, items: list[Item]) -> None:
    """What is refused is refused with the right error, and all else is taken."""
    assert refusal_of(items) == number
    if error is None:
        chat_of(items)
        return
    with pytest.raises(error):
        chat_of(items)


def test_a_refused_context_is_a_verdict() -> None:
    """Nothing can be asked of it, and the case says so; a case without a reason to be refused is not let off."""
    taken = {"seed": 1, "ctx": {"items": [USER, said("u", content="?")]}, "other": {"items": []}, "answers": {}}
    broken = {**taken, "ctx": {"items": [{**USER, "role": "nobody"}]}}

    outcomes = [verdict.outcome for case in (taken, broken) for verdict in replayed_chats(json.dumps(case))]
    assert outcomes == ["V1.15", UNEXPLAINED]


@functools.cache
def recorded_cases() -> dict[str, Any]:
    """Return the committed cases of conversions."""
    found: dict[str, Any] = json.loads(CONVERTERS.read_text(encoding="utf-8"))
    return found


def met(case: str, answer: str) -> Collection[str]:
    """Return the deviations by which one answer of a recorded case is explained."""
    return weighed(next(one for one in questions_of(recorded_cases()[case]) if one.name == answer)) or (EQUAL,)


@pytest.mark.parametrize(
    ("number", "answer", "shown_by", "not_by"),
    [
        ("V9.2", "openai", "empty_content_list", "text_str_content"),
        ("V9.5", "openai", "two_systems", "developer_first"),
        ("V9.7", "openai", "config_no_system", "config_then_system"),
        ("V9.8", "openai", "calls_split_by_handoff", "same_call_id_twice"),
        ("V9.11", "openai", "thought_sig_bad_b64", "same_call_id_twice"),
        ("V10.2", "anthropic", "system_multi_part", "two_systems"),
        ("V10.5", "anthropic", "empty_args", "calls_split_by_handoff"),
        ("V10.7", "anthropic", "same_call_id_twice", "empty_args"),
        ("V10.8", "anthropic", "thought_sig_bad_b64", "empty_args"),
        ("V10.10", "anthropic", "starts_with_assistant", "multi_part_text"),
        ("V10.12", "anthropic", "same_call_id_twice", "calls_split_by_handoff"),
        ("V11.2", "google", "system_multi_part", "two_systems"),
        ("V11.3", "google", "consecutive_assistants", "calls_split_by_handoff"),
        ("V11.4", "google", "image_url", "multi_part_text"),
        ("V11.5", "google", "calls_split_by_handoff", "image_url"),
        ("V11.6", "google_ts", "same_call_id_twice", "thought_sig_bad_b64"),
        ("V11.7", "google", "calls_split_by_handoff", "empty_args"),
        ("V11.8", "google", "thought_sig_bad_b64", "same_call_id_twice"),
        ("V13.3", "to_dict", "image_url", "two_systems"),
        ("X3", "anthropic", "consecutive_assistants", "empty_args"),
        ("X3", "google", "consecutive_assistants", "empty_args"),
    ],
)
def test_a_repair_of_conversions(number: str, answer: str, shown_by: str, not_by: str) -> None:
    """A case that shows the deviation in this answer, and one that does not."""
    assert number in met(shown_by, answer)
    assert number not in met(not_by, answer)


def test_each_result_is_taken_once() -> None:
    """V10.12: in the seed the second call under an id has no result, also in a later message."""
    again = [USER, called("c"), returned("r"), LATER, {**called("c"), "id": "d"}]

    for on, results in (((), 1), (("V10.12",), 1), (("V10.8", "V10.12"), 2)):
        messages = anthropic.modelled(again, on)[0]
        blocks = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
        assert [part["type"] for part in blocks if isinstance(part, dict)].count("tool_result") == results


def test_images_of_assistants() -> None:
    """V10.4: no named case has one; a text stands for it, and not for a user's."""
    parts = [{**IMAGE, "image": "https://e.x/a.png"}]
    asked, answered = said("u", content=parts), said("a", "assistant", parts)

    explained = [
        anthropic.explain(
            items, recorded=anthropic.modelled(items, ()), ours=plain(chat_of(items).to_anthropic_messages())
        )
        for items in ([asked], [asked, answered, LATER])
    ]
    assert explained == [[], ["V10.4"]]


def test_breakpoints() -> None:
    """V10.11: they are where the rule puts them and nowhere else, and never at a message that nobody wrote."""
    items = [SYSTEM, USER, ANSWER, LATER, said("b", "assistant", at=4)]
    answer = plain(chat_of(items).to_anthropic_messages())
    marked = caching.with_breakpoints(answer, items)
    where = [place for place, message in enumerate(marked[0]) if "cache_control" in message["content"][-1]]

    assert (where, len(marked[0])) == ([0, 2], 5)
    assert marked[1] == [{"type": "text", "text": "text", "cache_control": {"type": "ephemeral"}}]
    assert marked == plain(chat_of(items).to_anthropic_messages(caching=True))


def test_what_nobody_asks_is_not_equal() -> None:
    """An answer of a kind that nobody replays makes its case unexplained."""
    case = recorded_cases()["text_str_content"]

    (verdict,) = replayed_conversions(json.dumps({"a": {**case, "a new answer": 1}}))
    assert (verdict.outcome, verdict.detail.split("; ")[-1]) == (UNEXPLAINED, "a new answer: unexplained")
