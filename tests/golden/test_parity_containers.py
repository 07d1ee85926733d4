"""A recorded queue or pool that is wrong in any part is found out."""

import copy
import json
from typing import Any

import pytest

from tests.support.deviations.switches import UNEXPLAINED
from tests.support.parity.containers import replayed_containers
from tests.support.parity.verdicts import EQUAL
from tests.support.project import ROOT

RECORDED = ROOT / "tests" / "golden" / "pygents_fuzz.jsonl"


def recorded(kind: str) -> dict[str, Any]:
    """Return a recorded case of this kind with a branch."""
    cases = (json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines())
    return next(case for case in cases if case["kind"] == kind and len(case["final"]) > 1)


def outcome(case: dict[str, Any]) -> str:
    """Return what becomes of a case."""
    [verdict] = replayed_containers(json.dumps(case))
    return verdict.outcome


@pytest.mark.parametrize("kind", ["queue", "pool"])
def test_every_part_counts(kind: str) -> None:
    """A hook more or less, what one was told, an item, a text, a limit of a branch, an error."""
    case = recorded(kind)
    spoiled = [copy.deepcopy(case) for _ in range(6)]
    spoiled[0]["log"].pop()
    spoiled[1]["log"][0][2] = []
    spoiled[2]["final"][1]["items"][0]["content"] += "?"
    spoiled[3]["final"][0]["text"] += "?"
    spoiled[4]["final"][1]["limit"] = 99
    spoiled[5]["ops"][0]["error"] = "KeyError"

    assert outcome(case) == EQUAL
    assert [outcome(one) for one in spoiled] == [UNEXPLAINED] * 6


def test_an_error_is_an_answer() -> None:
    """It is compared by the name of Python's own error, and is no end of the replay."""
    steps = [{"on": 0, "op": "remove", "args": "a", "error": "KeyError"}, {"on": 0, "op": "add", "args": ["c", None]}]
    left: list[Any] = [{"limit": None, "items": [], "text": ""}]
    case = {"seed": 1, "kind": "pool", "limit": None, "ops": steps, "log": [], "final": left}

    assert outcome(case) == UNEXPLAINED
    steps[1]["error"] = "ValueError"
    assert outcome(case) == EQUAL
