"""Questions for a context as text and as messages of each provider, and for its tokens (SPEC V8 to V11)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from refold.domain.chat.context import ChatContext
from refold.domain.chat.summary_texts import render_context_as_text, render_items
from refold.domain.chat.tokens import estimate_tokens
from tests.support.deviations import anthropic, caching, google, openai
from tests.support.deviations.plain_items import Item
from tests.support.deviations.switches import explanation
from tests.support.deviations.tokens import tokens_of, total_of

from ..deviations.switches import UNEXPLAINED
from .changes import truncation
from .contexts import chat_of, plain
from .judging import judged
from .verdicts import Explain, Question, Verdict

# The signatures that the recording gave, as base64, by the names of their functions.
SIGNATURES = {"google": {}, "google_sigs_by_name_f": {"f": "YnluYW1l"}, "google_ts": {"f": "YnluYW1l", "g": "Z25hbWU="}}


def replayed_conversions(text: str) -> Iterator[Verdict]:
    """Return the verdict on each case of a document of conversions."""
    for name, case in json.loads(text).items():
        answers = {answer: recorded for answer, recorded in case.items() if answer != "input"}
        yield judged(name, [case["input"]["items"]], answers, questions_of(case))


def questions_of(case: Mapping[str, Any]) -> Iterator[Question]:
    """Yield all that was asked of a case."""
    items = case["input"]["items"]
    yield from conversions(items, case)
    yield from tokens(items, case, each="per_item_tokens")
    yield Question("active_config", case["active_config"], lambda: plain(chat_of(items).active_config_at()), never)
    yield _written(items, case["to_dict"])
    for limit in ("items", "tokens"):
        for bound, recorded in case[f"truncate_{limit}"].items():
            yield truncation(items, f"{limit}={bound}", recorded, name=f"truncate_{limit}")


def never(_recorded: Any, _ours: Any) -> list[str]:
    """Explain nothing: no deviation affects this question."""
    return [UNEXPLAINED]


def conversions(items: Sequence[Item], answers: Mapping[str, Any]) -> Iterator[Question]:
    """Yield the questions for texts and messages."""
    chat = chat_of(items)
    yield Question("openai", answers["openai"], chat.to_openai_messages, _explain_openai(items))
    yield Question(
        "openai_reasoning",
        answers["openai_reasoning"],
        lambda: chat.to_openai_messages(reasoning_model=True),
        _explain_reasoning(items),
    )
    yield Question(
        "anthropic", answers["anthropic"], lambda: plain(chat.to_anthropic_messages()), _explain_anthropic(items)
    )
    if "anthropic_caching_same" in answers:
        yield _caching(chat, items, recorded=answers["anthropic_caching_same"])
    for name in SIGNATURES:
        if name in answers:
            yield _google(chat, items, name, answers[name])
    yield Question("render_items", answers["render_items"], lambda: render_items(chat.items), never)
    text = answers["render_context_as_text"]
    yield Question("render_context_as_text", text, lambda: render_context_as_text(chat), never)


def _explain_openai(items: Sequence[Item]) -> Explain:
    return lambda recorded, ours: openai.explain(items, recorded=recorded, ours=ours)


def _explain_reasoning(items: Sequence[Item]) -> Explain:
    def explain(recorded: Any, ours: Any) -> list[str]:
        if any(message["role"] == "system" for message in [*recorded, *ours]):
            return [UNEXPLAINED]
        return openai.explain(items, recorded=_as_systems(recorded), ours=_as_systems(ours))

    return explain


def _as_systems(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For a reasoning model only the roles differ (SPEC V9.4)."""
    return [{**one, "role": "system" if one["role"] == "developer" else one["role"]} for one in messages]


def _explain_anthropic(items: Sequence[Item]) -> Explain:
    return lambda recorded, ours: anthropic.explain(items, recorded=recorded, ours=ours)


def _caching(chat: ChatContext, items: Sequence[Item], *, recorded: Any) -> Question:
    """
    The recording says whether caching made no difference. Our answer is the same, or the places of the breakpoints.
    """
    marked, unmarked = plain(chat.to_anthropic_messages(caching=True)), plain(chat.to_anthropic_messages())

    def explain(recorded: Any, ours: Any) -> list[str]:
        is_repaired = recorded is True and ours == caching.with_breakpoints(unmarked, items)
        return [caching.NUMBER if is_repaired else UNEXPLAINED]

    return Question("anthropic_caching_same", recorded, lambda: marked == unmarked or marked, explain)


def _google(chat: ChatContext, items: Sequence[Item], name: str, recorded: Any) -> Question:
    signatures = SIGNATURES[name]

    def explain(recorded: Any, ours: Any) -> list[str]:
        return google.explain(items, recorded=recorded, ours=ours, thought_signatures=signatures)

    return Question(name, recorded, lambda: plain(chat.to_google_json(thought_signatures=signatures)), explain)


def tokens(items: Sequence[Item], answers: Mapping[str, Any], *, each: str) -> Iterator[Question]:
    """Yield the questions about the estimate of tokens; `each` is the name of the answer about each item."""
    chat = chat_of(items)
    yield Question(
        "estimated_tokens",
        answers["estimated_tokens"],
        chat.estimated_tokens,
        lambda recorded, ours: explanation(lambda on: total_of(items), (), recorded=recorded, ours=ours),
    )
    yield Question(
        each,
        answers[each],
        lambda: [estimate_tokens(item) for item in chat.recorded_items()],
        lambda recorded, ours: explanation(
            lambda on: [tokens_of(item) for item in items], (), recorded=recorded, ours=ours
        ),
    )


def _written(items: Sequence[Item], recorded: Any) -> Question:
    """V13.3: a context with images can be written; the seed names the first value that cannot."""

    def explain(recorded: Any, ours: Any) -> list[str]:
        parts = [part for item in items if isinstance(item.get("content"), list) for part in item["content"]]
        has_image = any(isinstance(part, dict) for part in parts)
        failed = {"json_serializable": "TypeError: Object of type ImageContent is not JSON serializable"}
        is_repaired = has_image and recorded == failed and ours == {"json_serializable": True}
        return ["V13.3" if is_repaired else UNEXPLAINED]

    def ask() -> Any:
        written = json.loads(json.dumps(chat_of(items).to_dict()))
        return {"json_serializable": chat_of(written["items"]).items == chat_of(items).items}

    return Question("to_dict", recorded, ask, explain)
