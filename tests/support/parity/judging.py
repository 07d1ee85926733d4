"""The verdict on a case: whether its contexts can be made, and the result of each question."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refold.domain.errors import DuplicateItemError
from tests.support.deviations.plain_items import Item
from tests.support.deviations.refusals import refusal_of

from ..deviations.switches import UNEXPLAINED
from .contexts import chat_of
from .verdicts import Question, Verdict, verdict_of, weighed

# A bad image is refused by pydantic, whose errors are ValueErrors.
REFUSALS = {"V1.15": DuplicateItemError, "V1.11c": ValueError}


def judged(
    case: str, contexts: Sequence[Sequence[Item]], answers: Mapping[str, Any], questions: Iterable[Question]
) -> Verdict:
    """
    Return the verdict on a case; if one of its contexts is rightly refused, no question is asked.

    A question's name begins with the name of its recorded answer. An answer without a question is unexplained.
    """
    for items in contexts:
        refused = _refused(items)
        if refused:
            return Verdict(case, refused, f"no context is made of it: {refused}")
    numbers: dict[str, list[str]] = {}
    for question in questions:
        numbers[question.name] = weighed(question)
    asked = {name.partition(" ")[0] for name in numbers}
    numbers |= {name: [UNEXPLAINED] for name, answer in answers.items() if name not in asked and answer != {}}
    return verdict_of(case, numbers)


def _refused(items: Sequence[Item]) -> str | None:
    """The deviation by which items are refused; None if they are rightly accepted."""
    expected = refusal_of(items)
    try:
        chat_of(items)
    except Exception as error:
        is_expected = expected is not None and isinstance(error, REFUSALS[expected])
        return expected if is_expected else UNEXPLAINED
    return None if expected is None else UNEXPLAINED
