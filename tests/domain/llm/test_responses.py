"""Answers and their pieces (SPEC V14.1, V14.2, V14.16), and the base of models (V14.3 to V14.5)."""

import asyncio
import copy
import pickle
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import ValidationError

from refold.domain.chat.context import ChatContext
from refold.domain.chat.roles import ChatRole
from refold.domain.llm.base import LLM, LLMResponse, ResponseChunk, TokenBudget, collect

from .models import ScriptedLLM, said


def test_a_response_needs_its_content() -> None:
    """The role may be its name; content has no default."""
    assert LLMResponse.model_validate({"content": "a", "role": "assistant"}).role is ChatRole.ASSISTANT
    assert said("a").metadata is None
    with pytest.raises(ValidationError, match="content"):
        LLMResponse.model_validate({"role": "assistant"})


def test_a_chunk_is_its_text() -> None:
    """Equal and hash-equal; None is no text; adding gives a plain text."""
    chunk = ResponseChunk("a", {"x": 1}, "user")

    assert (chunk, hash(chunk), chunk.content) == ("a", hash("a"), "a")
    assert type(chunk + "b") is str
    assert type(chunk.content) is str
    assert ResponseChunk(None).content == ""


@pytest.mark.parametrize("again", [copy.deepcopy, lambda chunk: pickle.loads(pickle.dumps(chunk))])
def test_a_chunk_keeps_what_it_knows(again: object) -> None:
    """Through a copy and through pickle."""
    assert callable(again)
    chunk = again(ResponseChunk("a", {"x": 1}, "user"))

    assert (chunk, chunk.metadata, chunk.role) == ("a", {"x": 1}, "user")


def test_a_budget_starts_at_nothing() -> None:
    """All four counts."""
    zeros = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "cached_tokens": 0}

    assert TokenBudget().model_dump() == zeros


async def answer(*given: LLMResponse | ResponseChunk) -> AsyncIterator[LLMResponse | ResponseChunk]:
    """Yield pieces."""
    for piece in given:
        yield piece


def test_collect_joins() -> None:
    """Texts in order, metadata of all; chunks count like responses."""
    whole = asyncio.run(collect(answer(said("a", x=1), ResponseChunk("b", {"y": 2}), said("", x=3))))

    assert whole == said("ab", x=3, y=2)


def test_collect_starts_again() -> None:
    """What came before a restart is thrown away, text and metadata."""
    whole = asyncio.run(collect(answer(said("a", x=1), said("", restart=True), said("b"))))

    assert whole == said("b")


def test_the_base_can_be_made_but_not_asked() -> None:
    """V14.3: `LLM()` has a label; its chat is a coroutine that raises when awaited, and when it is read."""
    model = LLM()  # type: ignore[abstract]
    question: Any = model.chat(ChatContext())

    async def read() -> None:
        async for _ in question:
            pass

    assert model.label == "refold.domain.llm.base.LLM"
    assert asyncio.iscoroutine(question)
    for wrong in (question, read()):
        with pytest.raises(NotImplementedError, match=r"LLM has no chat\(\): write it as an async generator"):
            asyncio.run(wrong)
    with pytest.raises(NotImplementedError, match=r"LLM has no chat\(\)"):
        model.chat(ChatContext()).throw(ValueError())  # type: ignore[attr-defined]  # it is a coroutine, too


def test_a_model_is_closed_at_the_end_of_its_block() -> None:
    """What is being said is stopped."""
    model = ScriptedLLM([])

    async def use() -> None:
        async with model as same:
            assert same is model

    asyncio.run(use())

    assert model.cancelled == 1
    assert model.label.endswith("models.ScriptedLLM")
