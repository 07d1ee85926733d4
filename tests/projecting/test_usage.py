"""The use of tokens: by day, agent and model, on every kind of store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import refold
import refold.domain.chat.usage
from refold.chat import LLMResponse, TokenBudget
from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import ChatMessage, FunctionCall
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import InvalidInputError
from refold.domain.formats.anthropic.receive import AnthropicShaper
from refold.domain.messages import AIMessage, HumanMessage
from refold.infrastructure.importing import import_file
from refold.projections.usage import USAGE, UsageByContext, UsageRow, summed_by

from ..model.editing_life import TellingLLM
from ..support.effort import calls_of


class Telling(TellingLLM):
    """A model with a name."""

    model = "m2"


def used(row: UsageRow) -> tuple[Any, ...]:
    """Return the agent, the model and the numbers of a row, without the cost."""
    fields = ("agent", "model", "messages", "calls", "tokens_in", "tokens_out")
    return tuple(getattr(row, field) for field in (*fields, "counted_in", "counted_out", "counted_cached"))


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


def test_days(store: refold.Store) -> None:
    """An item counts for the day on which it happened, to its end in UTC; one without such a day, for its event's."""
    chat = store.chat("a")
    for happened in (0.5, 86_399.9, 86_400.0, 1_763_683_200.0, -5.0, 253_402_300_799.0, 253_402_300_800.0, 1e300):
        chat.add_message("user", "Where?", created_at=happened)

    today = datetime.now(UTC).date().isoformat()
    days = {row.day: row.messages for row in store.usage(by=["day"])}
    assert days == {"1970-01-01": 2, "1970-01-02": 1, "2025-11-21": 1, "9999-12-31": 1, today: 3}
    assert [row.messages for row in store.usage(by=(), since="2025-11-21", until="2025-11-21")] == [1]
    by_a_far_clock = msgspec.structs.replace(store.log.read("chat:a")[5], recorded_at=10**18)
    assert [key.partition("/")[0] for key in USAGE.keys(by_a_far_clock)] == ["9999-12-31"]


@pytest.mark.parametrize(
    "metrics",
    [
        {"model": "m1", "usage": {"input_tokens": 100, "output_tokens": 7, "cached_tokens": 90}},
        {"model_name": "m1", "token_usage": {"prompt_tokens": 100, "completion_tokens": 7, "cached_tokens": 90}},
        {"model": "m1", "input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": 90},
    ],
)
def test_counted_by_providers(store: refold.Store, metrics: dict[str, Any]) -> None:
    """A message, or a call, says what its provider counted."""
    chat = store.chat("a", agent="triage")
    chat.add_items([answer(**metrics), answer(**metrics)])
    chat.add_items([FunctionCall(name="look", arguments="{}", call_id="c1", metadata=metrics)])

    assert [used(row) for row in store.usage()] == [("triage", "m1", 2, 1, 0, 26, 300, 21, 270)]


def test_rows_of_an_earlier_version(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were made without the names of Google's REST API, so they are made anew."""
    with monkeypatch.context() as earlier, refold.open(place) as store:
        earlier.setattr(UsageByContext, "version", 4)
        earlier.setattr(refold.domain.chat.usage, "READ", ("input_tokens", "prompt_tokens", "prompt_token_count"))
        store.chat("a").add_items([answer(usage={"promptTokenCount": 9})])
        assert [row.counted_in for row in store.usage()] == [0]

    with refold.open(place) as store:
        assert [row.counted_in for row in store.usage()] == [9]
        assert store.verify().problems == ()


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input_tokens": 100, "output_tokens": 7, "cached_tokens": 90}, (100, 7, 90)),
        ({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 90}}, (100, 7, 90)),
        ({"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 90}}, (100, 7, 90)),
        ({"input_tokens": 100, "output_tokens": 7, "input_token_details": {"cache_read": 90}}, (100, 7, 90)),
        # Anthropic's `input_tokens` are those beside the cache.
        ({"input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}, (100, 0, 60)),
        ({"prompt_tokens": 100, "cache_read_input_tokens": 60}, (100, 0, 60)),
        ({"prompt_token_count": 9, "candidates_token_count": 2, "thoughts_token_count": 5}, (9, 7, 0)),
        (refold.Usage(input_tokens=100, output_tokens=7, cached_tokens=90), (100, 7, 90)),
        (TokenBudget(input_tokens=100, output_tokens=7, cached_tokens=90), (100, 7, 90)),
        (SimpleNamespace(input_tokens=100, output_tokens=7, details=None), (100, 7, 0)),
    ],
)
def test_usage_of_clients(usage: Any, counts: tuple[int, ...]) -> None:
    """The usage of an answer is given as its client has it."""
    store = refold.open(":memory:")
    chat = store.chat("a")
    chat.add_message("assistant", "It is.", usage=usage, model="m1")
    call = chat.add_function_call("look", "{}", metadata={"own": 1}, usage=usage)

    named, bare = (store.usage(by=["model"])[index] for index in (1, 0))
    assert (named.model, named.counted_in, named.counted_out, named.counted_cached) == ("m1", *counts)
    assert (bare.model, bare.counted_in, bare.counted_out, bare.counted_cached) == ("", *counts)
    assert (call.metadata or {})["own"] == 1


def test_a_call_takes_what_a_message_takes() -> None:
    """An answer that is only calls: the arguments by name come before the fields of its usage."""
    chat = refold.open(":memory:").chat("a")
    spent: dict[str, Any] = {"model": "m1", "cost": 0.1, "input_tokens": 9, "output_tokens": 2, "cached_tokens": 0}
    said = chat.add_message("assistant", "It is.", usage={"input_tokens": 1}, **spent)
    call = chat.add_function_call("look", "{}", metadata={"own": 1}, usage={"input_tokens": 1}, **spent)

    assert call.metadata == {"own": 1, **(said.metrics or {})}


def test_a_count_may_be_0() -> None:
    """It is kept as it was given."""
    said = refold.open(":memory:").chat("a").add_message("assistant", "It is.", input_tokens=9, cached_tokens=0)

    assert said.metrics == {"usage": {"input_tokens": 9, "cached_tokens": 0}}


def test_given_by_name(store: refold.Store) -> None:
    """The arguments of a message are in its metrics, in the sums by context, and exact."""
    numbers: dict[str, Any] = {"input_tokens": 100, "output_tokens": 7, "cached_tokens": 90}
    for chat in (store.chat("a"), store.chat("b")):
        said = chat.add_message("assistant", "It is.", model="m1", cost=0.1, **numbers)
    spent = {"model": "m2", "cost": 7, "input_tokens": 3}
    chat.add_message("assistant", "It is not.", usage=spent, cost=Decimal("0.2"))

    assert said.metrics == {"model": "m1", "cost": 0.1, "usage": numbers}
    assert store.chat("b").to_dict()["items"][0]["metrics"] == said.metrics
    sums = [(row.context, row.model, row.counted_in, row.cost) for row in store.usage(by=["context", "model"])]
    assert sums == [
        ("chat:a", "m1", 100, Decimal("0.1")),
        ("chat:b", "m1", 100, Decimal("0.1")),
        ("chat:b", "m2", 3, Decimal("0.2")),
    ]
    assert [row.cost for row in store.usage(by=())] == [Decimal("0.4")]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"input_tokens": -1}, "input_tokens is -1"),
        ({"output_tokens": 1.5}, "output_tokens is 1.5"),
        ({"cached_tokens": True}, "cached_tokens is True"),
        ({"cost": float("nan")}, "cost is nan"),
        ({"cost": -0.1}, "cost is -0.1"),
        ({"cost": "much"}, "cost is 'much'"),
        ({"model": 5}, "model is 5"),
        ({"usage": 7}, "usage is 7"),
        ({"usage": {"inputTokens": 7}}, "usage is {'inputTokens': 7}: give a Usage, a dict"),
        ({"usage": object()}, "with fields such as `input_tokens`"),
        ({"usage": type("Counts", (), {"input_tokens": 7})()}, "with fields such as `input_tokens`"),
        ({"usage": {"input_tokens": "7"}}, "input_tokens is '7'"),
        ({"usage": {"input_tokens": 1, "details": {1: 2}}}, "keys of JSON"),
    ],
)
def test_usage_that_is_none(given: dict[str, Any], named: str) -> None:
    """A wrong argument is named, and nothing is recorded."""
    chat = refold.ChatContext()

    with pytest.raises(InvalidInputError, match=named):
        chat.add_message("assistant", "It is.", **given)

    assert chat.version == 1


def test_usage_in_imports(store: refold.Store) -> None:
    """An imported message keeps its usage beside its content; the pieces of one message count once."""
    openai = {"role": "assistant", "content": "yo", "model": "m1", "cost": 0.5, "usage": {"prompt_tokens": 5}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    store.adopt(
        ChatContext.from_openai_messages([
            openai,
            {"role": "assistant", "content": None, "tool_calls": [call], "usage": {"prompt_tokens": 7}, "model": "m1"},
        ]),
        "a",
    )  # fmt: skip
    shaper = AnthropicShaper("b")
    usage = {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 2}
    message = {"role": "assistant", "id": "x", "model": "m2", "usage": usage}
    pieces = [{**message, "content": [{"type": "text", "text": text}]} for text in ("one", "two")]
    items = shaper.items_of(0, pieces[0], "0", created_at=1.0)
    store.chat("b", user="mia").record_items(
        [*items, *shaper.items_of(1, pieces[1], "1", created_at=1.0, continues=True)]
    )

    sums = [(row.model, row.counted_in, row.counted_out, row.cost) for row in store.usage(by=["model"])]
    assert sums == [("m1", 12, 0, Decimal("0.5")), ("m2", 7, 2, 0)]
    users = [(row.user, row.model, row.counted_in) for row in store.usage(by=["user", "model"])]
    assert users == [("", "m1", 12), ("mia", "m2", 7)]


def test_usage_in_pieces_of_a_message(store: refold.Store, tmp_path: Path) -> None:
    """A session repeats the usage in each piece, and only the last one has all tokens of the answer."""
    usage: dict[str, Any] = {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 100}
    pieces = [{"type": "text", "text": "yo"}, {"type": "tool_use", "id": "t1", "name": "f", "input": {}}]
    lines: list[dict[str, Any]] = [
        {
            "type": "assistant", "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": "s1", "timestamp": "2026-11-20T10:00:02Z", "message": {
                "id": "m1", "role": "assistant", "model": "m1", "content": [piece],
                "usage": {**usage, "output_tokens": 2 + 18 * number},
            },
        }
        for number, piece in enumerate(pieces)
    ]  # fmt: skip
    path = tmp_path / "s1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_file(store, path)

    [row] = store.usage(by=["model"])
    assert used(row) == ("", "m1", 1, 1, 0, row.tokens_out, 105, 20, 100)


@pytest.mark.parametrize("by", ["day", ["hour"]])
def test_no_names(store: refold.Store, by: Any) -> None:
    """Usage is summed up by names that its rows have."""
    with pytest.raises(InvalidInputError, match="day, agent, model, context"):
        store.usage(by=by)


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


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        (TokenBudget(input_tokens=900, output_tokens=20, cached_tokens=5), (900, 20, 5)),
        ({"prompt_tokens": 7, "completion_tokens": 2}, (7, 2, 0)),
        ({"input_tokens": -1}, (0, 0, 0)),
        ("many", (0, 0, 0)),
    ],
)
async def test_what_a_summary_took(store: refold.Store, said: object, counted: tuple[int, ...]) -> None:
    """A summary has the longest prompt of all; what its provider says of it counts for its model, wherever it goes."""

    class Counting(Telling):
        async def chat(self, *args: Any, **kwargs: Any) -> AsyncIterator[LLMResponse]:
            async for piece in super().chat(*args, **kwargs):
                yield piece.model_copy(update={"metadata": {"usage": said}})

    chat, other = store.chat("a"), store.chat("b")
    for text in ("one", "two"):
        chat.add_message("user", text)
    await other.merge_with_summary(chat, llm=Counting())
    await chat.summarize(Counting(), keep_recent_turns=1)

    assert chat.summary_failure is None
    for name in ("a", "b"):
        row = store.usage(by=("model",), context=name)[-1]
        assert (row.counted_in, row.counted_out, row.counted_cached) == counted
        assert row.model == "m2" or not any(counted)


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
    """The async side answers the same."""
    store.chat("a")

    assert await refold.to_async(store).usage() == store.usage() == []


def test_a_message_written_piece_by_piece(store: refold.Store) -> None:
    """It counts once, when it is finished, for the model that is known then."""
    chat = store.chat("a", agent="triage")
    with chat.stream(agent_id="solver") as out:
        out.write("It is ")
        out.flush()
        assert store.usage() == []
        out.write("on its way")
        out.use({"prompt_tokens": 100}, model="m1", cost=0.5)

    [row] = store.usage()
    assert used(row) == ("solver", "m1", 1, 0, 0, 8, 100, 0, 0)
    assert row.cost == Decimal("0.5")


def test_a_sum_takes_few_calls() -> None:
    """Less than six for each row; the counts of a row are taken together."""
    rows = [UsageRow(key=str(n), day="2026-11-21", agent="a", model="m", messages=1, tokens_in=n) for n in range(1_000)]

    [found] = summed_by(rows, ["day"])
    assert (found.messages, found.tokens_in, found.cost_nanos) == (1_000, 499_500, 0)
    assert calls_of(lambda: summed_by(rows, ["day"])) < 6_000
