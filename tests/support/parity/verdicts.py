"""The verdict on one case: each answer in it is equal, computed by named deviations, or unexplained."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tests.support.deviations.switches import UNEXPLAINED

EQUAL = "equal"
NUMBER = re.compile(r"([A-Z]+)(\d+)(?:\.(\d+)(.*))?")

# Takes a recorded answer and ours, and returns the numbers of the deviations that lead from the one to the other. It
# returns none if both mean the same (base64 has two alphabets).
Explain = Callable[[Any, Any], list[str]]


def cases(text: str) -> list[dict[str, Any]]:
    """Return the cases of a file of JSON lines."""
    return [json.loads(line) for line in text.split("\n") if line]


class Verdict(NamedTuple):
    """
    The verdict on one case. `outcome` is "equal", "unexplained", or the numbers of deviations with blanks between them;
    `detail` has the result of each answer that is not equal.
    """

    case: str
    outcome: str
    detail: str = ""


class Question(NamedTuple):
    """
    One question of a case: the recorded answer, a function that asks again, and the deviations that may explain a
    difference.
    """

    name: str
    recorded: Any
    ask: Callable[[], Any]
    explain: Explain


def weighed(question: Question) -> list[str]:
    """Ask a question again and return the deviations that explain the answer: none where it is equal."""
    try:
        ours = question.ask()
    except Exception as error:
        # A recorded answer may be an error too, and one case that fails must not hide the others.
        ours = {"__error__": type(error).__name__, "msg": str(error)}
    if ours == question.recorded:
        return []
    try:
        return question.explain(question.recorded, ours)
    except (ValueError, LookupError, TypeError, AttributeError):
        # A recorded answer that does not even have the form that a model gives.
        return [UNEXPLAINED]


def verdict_of(case: str, numbers: Mapping[str, list[str]]) -> Verdict:
    """Return the verdict on a case with these answers, each with the deviations that explain it."""
    met = {number for found in numbers.values() for number in found}
    if not met:
        return Verdict(case, EQUAL)
    outcome = UNEXPLAINED if UNEXPLAINED in met else " ".join(_in_order(met))
    told = (f"{name}: {' '.join(_in_order(found))}" for name, found in numbers.items() if found)
    return Verdict(case, outcome, "; ".join(told))


def _in_order(numbers: Iterable[str]) -> list[str]:
    """V2.8 comes before V2.22, as in the list they are from."""
    return sorted(set(numbers), key=_rank)


def _rank(number: str) -> tuple[str, int, int, str]:
    found = NUMBER.fullmatch(number)
    return (found[1], int(found[2]), int(found[3] or 0), found[4] or "") if found else (number, 0, 0, "")
