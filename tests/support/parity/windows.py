"""Replays "window operations": which items are accepted, and the text and the estimate of tokens (SPEC A2)."""

from collections.abc import Iterator, Mapping
from typing import Any

from refold.domain.window.items import ContextItem
from refold.domain.window.window import ContextWindow
from tests.support.deviations import window
from tests.support.deviations.switches import explanation

from .homes import kept
from .verdicts import Question, Verdict, cases, verdict_of, weighed


def replayed_windows(text: str) -> Iterator[Verdict]:
    """Return the verdict on each case of a file of JSON lines."""
    for case in cases(text):
        yield verdict_of(str(case["seed"]), {"answer": weighed(_question(case))})


def _question(case: Mapping[str, Any]) -> Question:
    def explain(recorded: Any, ours: Any) -> list[str]:
        return explanation(lambda on: window.answered(case, on), window.NUMBERS, recorded=recorded, ours=ours)

    return Question("answer", _recorded(case), lambda: asked(case), explain)


def _recorded(case: Mapping[str, Any]) -> dict[str, Any]:
    steps = [[step["accepted"], step["tokens"]] for step in case["ops"] if step["op"] == "add"]
    return {"ops": steps, **{answer: case[answer] for answer in ("build", "tokens", "keys")}}


def asked(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of our window to the operations of a case."""
    shown = kept(ContextWindow(case["max_tokens"]))
    steps: list[list[Any]] = []
    for step in case["ops"]:
        if step["op"] == "clear":
            shown.clear()
            continue
        is_in = shown.add(ContextItem(**step["args"]))
        steps.append([is_in, shown.estimated_tokens()])
    return {
        "ops": steps,
        "build": shown.build(),
        "tokens": shown.estimated_tokens(),
        "keys": [item.key for item in shown.items],
    }
