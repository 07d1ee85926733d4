"""What the recorded windows do not show: the repair of A2.6, and that model and window agree on all others."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.domain.strategies import PROPERTY
from tests.support.deviations import window
from tests.support.deviations.switches import UNEXPLAINED
from tests.support.parity.verdicts import EQUAL
from tests.support.parity.windows import asked, replayed_windows

ITEM = st.fixed_dictionaries({
    "key": st.sampled_from(["", "k", "é2"]),
    "value": st.sampled_from(["", "v", "日本", "vvvvvv\n"]),
    "source": st.sampled_from(["s", "tool"]),
    "priority": st.integers(-2, 2),
})  # fmt: skip
STEP = st.fixed_dictionaries({"op": st.just("add"), "args": ITEM}) | st.just({"op": "clear"})


def recorded(*values: str, max_tokens: int = 10) -> dict[str, Any]:
    """Return a case as the seed would have answered it: items with these values come one after the other."""
    items = [{"key": "k", "value": value, "source": "s", "priority": 0} for value in values]
    case: dict[str, Any] = {"seed": 1, "max_tokens": max_tokens, "ops": [{"op": "add", "args": item} for item in items]}
    answer = window.answered(case)
    for step, (accepted, tokens) in zip(case["ops"], answer.pop("ops"), strict=True):
        step.update(accepted=accepted, tokens=tokens)
    return {**case, **answer}


def outcome(case: dict[str, Any]) -> str:
    """Return what becomes of a case."""
    (verdict,) = replayed_windows(json.dumps(case))
    return verdict.outcome


def test_the_budget_is_tested_on_the_total() -> None:
    """A2.6: two items of 23 characters are 10 tokens for the seed that lets them in, and 11 once they are."""
    assert recorded("v", "v")["tokens"] == 11
    assert outcome(recorded("v", "v")) == "A2.6"
    assert outcome(recorded("v", "v", max_tokens=11)) == EQUAL


def test_a_wrong_answer_is_found() -> None:
    """Whatever part of it is wrong."""
    for case in (recorded("v"), recorded("v", "v")):
        for part, wrong in (("build", "?"), ("tokens", 1), ("keys", []), ("max_tokens", 4)):
            assert outcome({**case, part: wrong}) == UNEXPLAINED


@PROPERTY
@given(st.lists(STEP, max_size=12), st.integers(0, 40))
def test_model_and_window_agree(steps: list[dict[str, Any]], max_tokens: int) -> None:
    """With the repair, on operations that nobody recorded."""
    case = {"max_tokens": max_tokens, "ops": steps}

    assert asked(case) == window.answered(case, window.NUMBERS)
