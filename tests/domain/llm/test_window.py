"""Keeping a context within bounds: when it is summarised, by whom, and when it is cut (SPEC V8.5 to V8.7)."""

import asyncio
import logging
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.tokens import CHARACTERS, SCRIPTS, TokenCounter
from refold.domain.chat.window import ContextWindow
from refold.domain.errors import ConcurrencyError, DecisionRefusedError
from refold.domain.llm.base import LLM, LLMUnavailableError

from .models import ScriptedLLM


class Context:
    """A context of so many items, turns and tokens, that notes what is asked of it."""

    def __init__(self, items: int, turns: int, tokens: int = 0, error: Exception | None = None) -> None:
        self.items = [None] * items
        self.turns, self.tokens, self.error = turns, tokens, error
        self.calls: list[Any] = []

    def turn_count(self) -> int:
        """Return the turns."""
        return self.turns

    def estimated_tokens(self, counter: TokenCounter | None = None) -> int:
        """Return the tokens."""
        return self.tokens

    async def summarize(self, llm: LLM, *, keep_recent_turns: int = 3) -> Any:
        """Note by whom, and what is kept."""
        self.calls.append((llm, keep_recent_turns))
        if self.error:
            raise self.error
        return self

    def truncate(
        self,
        max_items: int | None = None,
        max_tokens: int | None = None,
        *,
        counter: TokenCounter = CHARACTERS,
        whole_turns: bool = True,
    ) -> Any:
        """Note the limits."""
        self.calls.append((max_items, max_tokens) if whole_turns else (max_items, max_tokens, "items"))
        return self


MODEL, OTHER = ScriptedLLM(["a"]), ScriptedLLM(["b"])


def managed(ctx: Any, /, model: LLM | None = MODEL, **settings: Any) -> list[Any]:
    """Return what a window asked of a context."""
    asyncio.run(ContextWindow(**settings).manage(ctx, model))
    calls: list[Any] = ctx.calls
    return calls


def test_settings() -> None:
    """The seed's defaults, by name only."""
    assert vars(ContextWindow()) == {
        "max_tokens": None,
        "max_context_items": None,
        "keep_recent_turns": 3,
        "max_tool_calls_per_turn": 10,
        "summary_llm": None,
        "whole_turns": True,
        "counter": CHARACTERS,
    }
    with pytest.raises(TypeError):
        ContextWindow(1_000)  # type: ignore[call-arg]


@pytest.mark.parametrize(("counter", "left"), [(CHARACTERS, 4), (SCRIPTS, 2)])
def test_limits_count_as_the_counter_does(counter: TokenCounter, left: int) -> None:
    """V2.8: texts count a quarter of their characters in every script, and by choice what they weigh in theirs."""
    chat = ChatContext()
    for index in range(4):
        chat.add_message("user", "注文はどこですか" * 2, message_id=f"m{index}")

    asyncio.run(ContextWindow(max_tokens=40, counter=counter).manage(chat, None))

    assert chat.estimated_tokens(counter) <= 40
    assert len(chat) == left
    with pytest.raises(ValueError, match="counter"):
        ContextWindow(counter="scripts")  # type: ignore[arg-type]


def test_without_limits_nothing_happens() -> None:
    """However long it is."""
    assert managed(Context(10_000, 5_000, 1_000_000)) == []


@pytest.mark.parametrize(
    ("items", "turns", "tokens", "settings", "is_summarised"),
    [
        (7, 5, 0, {"max_context_items": 6}, True),
        (6, 5, 0, {"max_context_items": 6}, False),
        (7, 4, 0, {"max_context_items": 6}, False),
        (7, 4, 0, {"max_context_items": 6, "keep_recent_turns": 2}, True),
        (7, 5, 61, {"max_tokens": 60}, True),
        (7, 5, 60, {"max_tokens": 60}, False),
        (1, 5, 0, {"max_context_items": 0}, True),
        (7, 5, 61, {"max_tokens": 60, "max_context_items": 100}, True),
    ],
)
def test_when_it_is_summarised(
    items: int, turns: int, tokens: int, settings: dict[str, Any], is_summarised: bool
) -> None:
    """Over a limit, and with more than one turn to spare; it is truncated in any case."""
    calls = managed(Context(items, turns, tokens), **settings)

    summary = [(MODEL, settings.get("keep_recent_turns", 3))] if is_summarised else []
    assert calls == [*summary, (settings.get("max_context_items"), settings.get("max_tokens"))]


def test_who_summarises() -> None:
    """The model that is there for it, else that of the conversation."""
    assert managed(Context(7, 5), max_context_items=6, summary_llm=OTHER)[0] == (OTHER, 3)
    assert managed(Context(7, 5), None, max_context_items=6, summary_llm=OTHER)[0] == (OTHER, 3)


def test_without_a_model_it_is_only_truncated(caplog: pytest.LogCaptureFixture) -> None:
    """And says so."""
    with caplog.at_level(logging.WARNING):
        assert managed(Context(7, 5), None, max_context_items=6) == [(6, None)]

    assert "no model" in caplog.text


@pytest.mark.parametrize(
    "error", [RuntimeError("boom"), LLMUnavailableError("OpenAI", "boom"), DecisionRefusedError("boom")]
)
def test_a_model_that_fails(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the context is truncated all the same."""
    with caplog.at_level(logging.WARNING):
        assert managed(Context(7, 5, error=error), max_context_items=6) == [(MODEL, 3), (6, None)]

    assert "boom" in caplog.text


def test_what_another_writer_did_is_not_swallowed() -> None:
    """A conflict is not a model's failure: the caller is told, and nothing is truncated."""
    ctx = Context(7, 5, error=ConcurrencyError("chat:a", expected=1, actual=2))

    with pytest.raises(ConcurrencyError):
        managed(ctx, max_context_items=6)

    assert ctx.calls == [(MODEL, 3)]


def conversation() -> ChatContext:
    """Return instructions and six turns, m0 to m12."""
    chat = ChatContext()
    for number in range(13):
        role = "system" if number == 0 else "user" if number % 2 else "assistant"
        chat.add_message(role, f"text {number}", message_id=f"m{number}")
    return chat


@pytest.mark.parametrize(
    ("settings", "shown", "asked"),
    [
        ({"max_context_items": 6, "keep_recent_turns": 2}, "m0 SUM m9 m10 m11 m12", 1),
        ({"max_context_items": 6, "keep_recent_turns": 5, "whole_turns": False}, "m0 m8 m9 m10 m11 m12", 0),
        ({"max_context_items": 6, "keep_recent_turns": 5}, "m0 m9 m10 m11 m12", 0),
        ({"max_context_items": 0}, "m0 SUM m11", 1),
        ({"max_tokens": 10_000}, "m0 m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12", 0),
    ],
)
def test_a_real_context(settings: dict[str, Any], shown: str, asked: int) -> None:
    """As the seed did in recorded cases; and all of it can be read in the past."""
    chat, model = conversation(), ScriptedLLM(["They talked."])
    before = chat.version

    asyncio.run(ContextWindow(**settings).manage(chat, model))

    assert [
        item.id if item.id.startswith("m") and "_" not in item.id else "SUM" for item in chat.items
    ] == shown.split()
    assert len(model.prompts) == asked
    assert len(chat.at(before).items) == 13
