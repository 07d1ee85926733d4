"""Every recorded answer of the seed's conversion to OpenAI messages is ours, or its deviations are named."""

from collections import Counter
from typing import Any

from refold.domain.formats.openai.send import openai_messages
from tests.support.deviations.openai import NUMBERS, explain
from tests.support.deviations.seed_items import recorded_items
from tests.support.deviations.switches import UNEXPLAINED

from .recorded_answers import HAS_GOLDEN, conversions


def as_systems(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages for a reasoning model as those for others: roles are all that differs (SPEC V9.4)."""
    return [{**message, "role": "system"} if message["role"] == "developer" else message for message in messages]


@HAS_GOLDEN
def test_every_difference_is_explained() -> None:
    """And each deviation is met somewhere, so that none is there for nothing."""
    met: Counter[str] = Counter()
    for name, items, answers in conversions():
        ours = openai_messages(recorded_items(items))
        numbers = explain(items, recorded=answers["openai"], ours=ours)
        assert UNEXPLAINED not in numbers, (name, answers["openai"], ours)
        met.update(numbers)

    assert {*met} == {*NUMBERS}


@HAS_GOLDEN
def test_reasoning_models_get_the_same_from_developers() -> None:
    """In the recorded answers and in ours only the role of instructions differs."""
    for name, items, answers in conversions():
        ours = openai_messages(recorded_items(items), reasoning_model=True)

        assert not [message for message in ours if message["role"] == "system"]
        assert as_systems(ours) == openai_messages(recorded_items(items)), name
        assert as_systems(answers["openai_reasoning"]) == answers["openai"], name


def test_a_difference_without_a_reason_is_found() -> None:
    """Neither another answer of ours nor another recorded one is explained away."""
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "id": "m", "content": "hi"}]
    said = [{"role": "user", "content": "hi"}]

    assert explain(items, recorded=said, ours=said) == []
    assert explain(items, recorded=said, ours=[]) == [UNEXPLAINED]
    assert explain(items, recorded=[], ours=said) == [UNEXPLAINED]
    assert explain(items, recorded=said * 2, ours=said) == [UNEXPLAINED]
