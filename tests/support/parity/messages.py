"""Replaying "message records": which messages are kept, and the text made of them (SPEC D12)."""

from collections.abc import Iterator
from typing import Any

from refold.domain.messages import build_current_context, clean_messages, message_of
from tests.support.deviations.messages import TEXT_OF_ORPHANS, Answer, recorded, text_of_orphans_kept

from ..deviations.switches import UNEXPLAINED
from .verdicts import Question, Verdict, cases, verdict_of, weighed


def replayed_messages(text: str) -> Iterator[Verdict]:
    """Return the verdict on each case."""
    return (verdict_of(str(case["seed"]), {"answer": _weighed(case)}) for case in cases(text))


def verdict(case: dict[str, Any]) -> str:
    """Return "equal", or the number of the statement whose repair explains the difference, or "unexplained"."""
    return verdict_of("", {"answer": _weighed(case)}).outcome


def _weighed(case: dict[str, Any]) -> list[str]:
    def explain(_: Any, ours: Any) -> list[str]:
        return [TEXT_OF_ORPHANS if ours == text_of_orphans_kept(case) else UNEXPLAINED]

    return weighed(Question("answer", recorded(case), lambda: answered(case), explain))


def answered(case: dict[str, Any]) -> Answer:
    """Answer the questions of a case, with our messages."""
    # Reading keeps system messages and results without an id; cleaning leaves them out.
    messages = [message_of(record) for record in case["records"]]
    kept = clean_messages(messages)
    # A message of which only the text was kept is a copy, known by that text: the records' are all different.
    places = [next(at for at, one in enumerate(messages) if one is found or one.content == found.content != "")
              for found in kept]  # fmt: skip
    return {
        "kept": places,
        "context": build_current_context(messages),
        "context_of_kept": build_current_context(kept),
    }
