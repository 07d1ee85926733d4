"""Replays "chat answers": all questions about one context, and about two contexts together (SPEC V2 to V11)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.support.deviations.plain_items import Item

from .changes import changes
from .contexts import chat_of, plain
from .conversions import conversions, never, tokens
from .judging import judged
from .verdicts import Question, Verdict, cases


def replayed_chats(text: str) -> Iterator[Verdict]:
    """Return the verdict on each case of a file of JSON lines."""
    for case in cases(text):
        contexts = [case["ctx"]["items"], case["other"]["items"]]
        yield judged(str(case["seed"]), contexts, case["answers"], questions_of(case))


def questions_of(case: Mapping[str, Any]) -> Iterator[Question]:
    """Yield all questions of a case."""
    items, other, answers = case["ctx"]["items"], case["other"]["items"], case["answers"]
    yield from conversions(items, answers)
    yield from tokens(items, answers, each="item_tokens")
    yield from _readings(items, answers)
    yield from changes(items, other, answers)


def _readings(items: Sequence[Item], answers: Mapping[str, Any]) -> Iterator[Question]:
    chat = chat_of(items)
    yield Question("turn_count", answers["turn_count"], chat.turn_count, never)
    yield Question("messages", answers["messages"], lambda: [message.id for message in chat.messages()], never)

    def active_config() -> Any:
        return plain([chat.active_config_at(place) for place in (*range(len(items)), None)])

    yield Question("active_config", answers["active_config"], active_config, never)
