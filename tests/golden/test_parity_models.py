"""
What the deviations compute is what Refold does, on contexts that nobody recorded: with all repairs, model and product
agree. The models share no code with the product, so each is a second opinion on the other.
"""

import asyncio
from collections.abc import Collection
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.domain.strategies import PROPERTY
from tests.support.deviations import forking, joining, summarising, truncating
from tests.support.deviations.plain_items import Item
from tests.support.parity.contexts import ANSWER, SummaryModel, chat_of, shown, told

Items = list[Item]
AGENTS = st.sampled_from([None, "a1", "a2"])
TEXTS = st.sampled_from(["", "  ", "text", "日本語テキスト", "[Conversation Summary]\nearlier"])
FIELDS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "message": st.fixed_dictionaries({
        "role": st.sampled_from(["user", "user", "assistant", "system", "developer"]),
        "content": TEXTS | st.lists(TEXTS, max_size=2),
        "extra": st.sampled_from([{}, {}, {}, {"summary": True}]),
    }),
    "function_call": st.fixed_dictionaries({"call_id": st.sampled_from("xyz"), "name": st.just("f")}),
    "function_call_output": st.fixed_dictionaries({"call_id": st.sampled_from("xyz"), "name": st.just("f")}),
    "agent_handoff": st.just({"to_agent": "a1"}),
    "agent_config_update": st.fixed_dictionaries({
        "instructions": st.sampled_from([None, "", "K"]), "tools": st.sampled_from([None, [], ["f"]]),
    }),
}  # fmt: skip
# What the models ask for, in whatever item it is.
REST = {"metadata": None, "arguments": "{}", "output": "out", "is_error": False}


def items(prefix: str, size: int) -> st.SearchStrategy[Items]:
    """Return contexts whose calls repeat and are answered or not, and whose times are in no order."""
    kinds = st.sampled_from(["message"] * 4 + ["function_call", "function_call_output"] * 2 + list(FIELDS)[3:])
    one = kinds.flatmap(
        lambda kind: st.tuples(st.just({"type": kind, **REST}), FIELDS[kind], st.integers(0, 4), AGENTS)
    )
    return st.lists(one, max_size=size).map(
        lambda made: [
            {**kind, **fields, "id": f"{prefix}{place}", "created_at": float(at), "agent_id": agent}
            for place, (kind, fields, at, agent) in enumerate(made)
        ]
    )


OURS, OTHERS = items("p", 12), items("q", 6)


def ids(*contexts: Items) -> Collection[str]:
    """Return the ids that are known beforehand."""
    return {item["id"] for context in contexts for item in context}


@PROPERTY
@given(OURS, st.integers(0, 9), st.integers(0, 90))
def test_truncation(context: Items, max_items: int, max_tokens: int) -> None:
    """By items, by tokens and by both."""
    by_items: dict[str, Any] = {"max_items": max_items}
    by_tokens: dict[str, Any] = {"max_tokens": max_tokens}
    for limits in (by_items, by_tokens, by_items | by_tokens):
        ours = shown(chat_of(context).truncate(**limits, whole_turns=False), ids(context))

        assert ours == told(truncating.truncated(context, **limits, on=truncating.NUMBERS))


@PROPERTY
@given(OURS, st.integers(1, 3), st.none() | st.just([]) | st.just(["f"]))
def test_filtered_forks(context: Items, turns: int, tools: list[str] | None) -> None:
    """What is carried, and the config update of the fork's own."""
    fork = chat_of(context).fork_filtered(turns, tools)

    model = forking.fork_filtered(context, recent_turns=turns, tools=tools, on=forking.FORK_NUMBERS)
    assert shown(fork, ids(context)) == told(model)
    assert fork.active_config_at() == chat_of(context).active_config_at()


@PROPERTY
@given(OURS, st.sets(st.sampled_from(sorted(forking.SWITCHES))), AGENTS)
def test_copies(context: Items, excluded: set[str], agent_id: str | None) -> None:
    """What passes, and the outputs of the calls that do."""
    options: dict[str, Any] = dict.fromkeys(excluded, True)
    copy = chat_of(context).copy(**options, filter_agent_id=agent_id)

    model = forking.copied(context, excluded=excluded, agent_id=agent_id, on=forking.COPY_NUMBERS)
    assert shown(copy, ids(context)) == told(model)


@PROPERTY
@given(OURS, OTHERS)
def test_merges(context: Items, other: Items) -> None:
    """Of contexts that have some items in common, whole and the last answer alone."""
    theirs = [*context[:2], *other]
    merged = asyncio.run(chat_of(context).merge(chat_of(theirs)))
    result = asyncio.run(chat_of(context).merge_result(chat_of(theirs), agent_id="sub"))

    known = ids(context, other)
    assert shown(merged, known) == told(joining.merged(context, theirs, on=joining.MERGE_NUMBERS))
    model = joining.result_merged(context, theirs, agent_id="sub", on=joining.RESULT_NUMBERS)
    assert shown(result, known) == told(model)


@PROPERTY
@given(OURS, OTHERS)
def test_insertions(context: Items, other: Items) -> None:
    """One after the other, and all at once."""
    each, many = chat_of(context), chat_of(context)
    incoming = chat_of([*context[:2], *other]).items
    for item in incoming:
        each.insert(item)
    many.insert_many(incoming)

    known, plain = ids(context, other), [*context[:2], *other]
    assert shown(each, known) == told(joining.inserted(context, plain, on=joining.INSERT_NUMBERS))
    in_order = joining.by_time(plain)
    assert shown(many, known) == told(joining.inserted(context, in_order, on=joining.INSERT_NUMBERS))


@PROPERTY
@given(OURS, st.integers(1, 3))
def test_summaries(context: Items, keep: int) -> None:
    """What is left, and what the model was asked."""
    model = SummaryModel()
    chat = asyncio.run(chat_of(context).summarize(model, keep_recent_turns=keep))

    left, asked = summarising.summarized(context, keep_recent_turns=keep, answer=ANSWER, on=summarising.NUMBERS)
    assert (shown(chat, ids(context)), model.asked) == (told(left), asked)
