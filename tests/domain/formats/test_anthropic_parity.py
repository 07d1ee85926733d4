"""Every recorded answer of the seed's conversion to Anthropic messages is ours, or its deviations are named."""

import json
from collections import Counter
from typing import Any

from refold.domain.formats.anthropic.send import anthropic_messages
from tests.support.deviations.anthropic import NUMBERS, explain, modelled
from tests.support.deviations.seed_items import recorded_items
from tests.support.deviations.switches import UNEXPLAINED

from .recorded_answers import HAS_GOLDEN, conversions

pytestmark = HAS_GOLDEN


def test_every_difference_is_explained() -> None:
    """And each deviation is met somewhere, so that none is there for nothing."""
    met: Counter[str] = Counter()
    for name, items, answers in conversions():
        ours = json.loads(json.dumps(anthropic_messages(recorded_items(items))))
        numbers = explain(items, recorded=answers["anthropic"], ours=ours)
        assert UNEXPLAINED not in numbers, (
            name,
            answers["anthropic"],
            ours,
            modelled(items, ()),
            modelled(items, NUMBERS),
        )
        met.update(numbers)

    assert {*met} == {*NUMBERS}


def test_a_difference_without_a_reason_is_found() -> None:
    """Neither another answer of ours nor another recorded one is explained away."""
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "id": "m", "content": "hi"}]
    said = [[{"role": "user", "content": "hi"}], None]

    assert explain(items, recorded=said, ours=said) == []
    assert explain(items, recorded=said, ours=[[], None]) == [UNEXPLAINED]
    assert explain(items, recorded=[[], None], ours=said) == [UNEXPLAINED]
