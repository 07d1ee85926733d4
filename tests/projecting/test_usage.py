"""The use of tokens: by day, agent and model, on every kind of store."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

import refold
from refold.domain.chat.items import ChatMessage, ChatRole, FunctionCall
from refold.domain.errors import InvalidInputError
from refold.domain.messages import AIMessage, HumanMessage
from refold.projections.usage import UsageRow

from ..model.editing_life import TellingLLM


class Telling(TellingLLM):
    """A model with a name."""

    model = "m2"


def used(row: UsageRow) -> tuple[Any, ...]:
    """Return what a row says, without key and day."""
    return tuple(getattr(row, field) for field in row.__struct_fields__[2:])


def answer(**metrics: Any) -> ChatMessage:
    """Return a message of a model of 8 estimated tokens."""
    return ChatMessage(role=ChatRole.ASSISTANT, content="It is on its way", metrics=metrics)


def test_estimated(store: refold.Store) -> None:
    """What was appended: for models to read, and by them, of each agent."""
    chat = store.chat("a", agent="triage")
    chat.add_message("user", "Where is my order?")
    chat.add_function_call("look", "{}", call_id="c1")
    chat.add_function_output("look", "shipped", call_id="c1", agent_id="helper")
    chat.add_items([answer()])

    helper, triage = store.usage()

    today = datetime.now(UTC).date().isoformat()
    assert (triage.day, helper.day) == (today, today)
    assert used(triage) == ("triage", "", 2, 1, 8, 18, 0, 0, 0)
    assert used(helper) == ("helper", "", 0, 0, 11, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "metrics",
    [
        {"model": "m1", "usage": {"input_tokens": 100, "output_tokens": 7, "cached_tokens": 90}},
        {"model_name": "m1", "token_usage": {"prompt_tokens": 100, "completion_tokens": 7, "cached_tokens": 90}},
        {"model": "m1", "input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 90},
    ],
)
def test_counted_by_providers(store: refold.Store, metrics: dict[str, Any]) -> None:
    """A message, or a call, says what its provider counted."""
    chat = store.chat("a", agent="triage")
    chat.add_items([answer(**metrics), answer(**metrics)])
    chat.add_items([FunctionCall(name="look", arguments="{}", call_id="c1", metadata=metrics)])

    assert [used(row) for row in store.usage()] == [("triage", "m1", 2, 1, 0, 26, 300, 21, 270)]


@pytest.mark.parametrize("count", [-5, 1 << 62, True, "7", 1.5, None, [], {"a": 1}])
def test_what_is_no_count(store: refold.Store, count: Any) -> None:
    """What else stands where a number should does no harm."""
    store.chat("a").add_items([answer(model=count, usage={"input_tokens": count}, output_tokens=3)])

    [row] = store.usage()
    assert (row.model, row.counted_in, row.counted_out) == (count if isinstance(count, str) else "", 0, 3)


async def test_summaries(store: refold.Store) -> None:
    """A summary is what a model wrote, and counts for it."""
    chat = store.chat("a", agent="triage")
    for text in ("one", "two", "three"):
        chat.add_message("user", text)
    await chat.summarize(Telling(), keep_recent_turns=1)

    assert [(row.model, row.messages, row.tokens_out) for row in store.usage()] == [("", 3, 0), ("m2", 1, 12)]


def test_messages_of_runs(store: refold.Store) -> None:
    """They are counted too, with what their provider says."""
    run = store.run("mia", "s1", agent="solver")
    run.record_messages(
        HumanMessage("How many orders?"),
        AIMessage(
            "Let me see.",
            tool_calls=[{"name": "count", "args": {}, "id": "c1"}],
            response_metadata={"model_name": "m1", "token_usage": {"prompt_tokens": 20, "completion_tokens": 5}},
        ),
    )

    plain, modelled = store.usage()
    assert used(plain) == ("solver", "", 1, 0, 4, 0, 0, 0, 0)
    assert used(modelled)[:4] == ("solver", "m1", 1, 1)
    assert (modelled.tokens_in, modelled.counted_in, modelled.counted_out) == (0, 20, 5)
    assert modelled.tokens_out > 5


def test_only_some_days(store: refold.Store) -> None:
    """From one to another, both included."""
    store.chat("a").add_message("user", "hello")
    today = datetime.now(UTC).date()
    tomorrow = date.fromordinal(today.toordinal() + 1)

    assert len(store.usage(since=today, until=today.isoformat())) == 1
    assert store.usage(since=tomorrow) == []
    assert store.usage(until="2020-01-01") == []


@pytest.mark.parametrize("day", ["yesterday", datetime(2026, 11, 21, tzinfo=UTC), 20261121])
def test_no_day(store: refold.Store, day: Any) -> None:
    """A time, or a word, is no day."""
    with pytest.raises(InvalidInputError, match="is no day"):
        store.usage(since=day)


async def test_in_an_event_loop(store: refold.Store) -> None:
    """The twin answers the same."""
    await store.achat("a")

    assert await store.ausage() == store.usage() == []
