"""Choosing from a pool: by a model that sees descriptions only, or by words."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from refold.domain.chat.roles import ChatRole
from refold.domain.errors import InvalidInputError
from refold.domain.llm.base import LLM, LLMResponse
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool, SelectionError


class Scripted(LLM):
    """A model that gives one answer, and keeps what it was shown."""

    def __init__(self, answer: str | Exception) -> None:
        super().__init__()
        self.answer, self.shown = answer, ""

    async def chat(
        self, messages: Any, tools: Any = None, conversational_graph: Any = None, **kwargs: Any
    ) -> AsyncIterator[LLMResponse]:
        """Give the answer."""
        self.shown = "\n".join(str(message.content) for message in messages.messages())
        if isinstance(self.answer, Exception):
            raise self.answer
        yield LLMResponse(content=self.answer, role=ChatRole.ASSISTANT)

    async def cancel_current_generation(self) -> None:
        """Do nothing."""


async def library() -> ContextPool[Any]:
    """Return a pool of three documents."""
    pool: ContextPool[Any] = ContextPool()
    await pool.add(ContextItem("secret one", "Q3 earnings: revenue and margins", "q3"))
    await pool.add(ContextItem("secret two", "Q4 earnings:\nrevenue, guidance", "q4"))
    await pool.add(ContextItem("secret three", "Holiday plans of the team", "fun"))
    return pool


async def test_a_model_chooses() -> None:
    """It is shown descriptions, one a line, and no content; what it names comes, in its order."""
    llm = Scripted(f"I take [2, 1, 9, {'1' * 5_000}, 2].")

    chosen = await (await library()).select("How did the year end?", llm=llm)

    assert [item.id for item in chosen] == ["q4", "q3"]
    assert "2. q4: Q4 earnings: revenue, guidance" in llm.shown
    assert "secret" not in llm.shown


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("none of these", "not a list of numbers"), (RuntimeError("down"), "the model failed: RuntimeError: down")],
)
async def test_no_choice(answer: Any, expected: str) -> None:
    """A model that fails or rambles is no choice of nothing."""
    with pytest.raises(SelectionError, match=expected):
        await (await library()).select("x", llm=Scripted(answer))
    assert await ContextPool[Any]().select("x", llm=Scripted(answer)) == []


async def test_nothing_helps() -> None:
    """An empty list is a choice."""
    assert await (await library()).select("x", llm=Scripted("[]")) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [("guidance of the Q4", ["q4", "fun"]), ("EARNINGS", ["q3", "q4"]), ("holiday", ["fun"]), ("zebra", [])],
)
async def test_words_without_a_model(query: str, expected: list[str]) -> None:
    """Rare shared words count most; what shares none is left out."""
    assert [item.id for item in await (await library()).select(query)] == expected


async def test_the_limit() -> None:
    """At most so many, and at least one."""
    pool = await library()
    assert len(await pool.select("earnings", limit=1)) == 1
    assert len(await pool.select("x", llm=Scripted("[1,2,3]"), limit=2)) == 2
    with pytest.raises(InvalidInputError, match="limit is 0"):
        await pool.select("x", limit=0)
