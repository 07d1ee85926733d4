"""Every recorded answer of the seed's conversion to Google contents is ours, or its deviations are named."""

import json
from collections import Counter
from typing import Any

from refold.domain.formats.google.send import google_contents
from tests.support.deviations.google import NUMBERS, explain, modelled
from tests.support.deviations.seed_items import recorded_items
from tests.support.deviations.switches import UNEXPLAINED

from .recorded_answers import HAS_GOLDEN, conversions

pytestmark = HAS_GOLDEN

# By the key of an answer, the signatures by name that it was asked for with.
SIGNATURES: dict[str, dict[str, str]] = {
    "google": {},
    "google_ts": {"f": "YnluYW1l", "g": "Z25hbWU="},
    "google_sigs_by_name_f": {"f": "YnluYW1l"},
}


def test_every_difference_is_explained() -> None:
    """And each deviation is met somewhere, so that none is there for nothing."""
    met: Counter[str] = Counter()
    keys: Counter[str] = Counter()
    for name, items, answers in conversions():
        for key in SIGNATURES.keys() & answers.keys():
            named = SIGNATURES[key]
            ours = json.loads(json.dumps(google_contents(recorded_items(items), thought_signatures=named)))
            numbers = explain(items, recorded=answers[key], ours=ours, thought_signatures=named)
            assert UNEXPLAINED not in numbers, (name, key, answers[key], modelled(items, (), named), ours)
            met.update(numbers)
            keys[key] += 1

    assert {*met} == {*NUMBERS}
    assert {*keys} == {*SIGNATURES}


def test_a_difference_without_a_reason_is_found() -> None:
    """Neither another answer of ours nor another recorded one is explained away."""
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "id": "m", "content": "hi"}]
    said = [[{"parts": [{"text": "hi"}], "role": "user"}], None]

    assert explain(items, recorded=said, ours=said) == []
    assert explain(items, recorded=said, ours=[[], None]) == [UNEXPLAINED]
    assert explain(items, recorded=[[], None], ours=said) == [UNEXPLAINED]
