"""
A research assistant: it collects notes in a pool, chooses among them by their descriptions, and answers from them.

    python examples/research_assistant.py "Where do herons winter?" assistant.db

It needs no network and no model: notes are chosen by the words of the question (`pool.select(..., llm=...)` would ask a
model). Called again with the same file it remembers what was asked, and collects nothing twice.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import refold
from refold.pool import Agent, ContextItem, ContextPool, ContextQueue, Turn, tool

NOTES = {
    "winter": ("Winter quarters of herons", "Herons that breed in the north winter around the Mediterranean."),
    "nests": ("Nests of herons", "Herons nest in colonies, high up in trees near water."),
    "food": ("Food of herons", "Herons eat fish, frogs and now and then a mouse."),
}


@tool
async def collect(pool: ContextPool[str]) -> AsyncIterator[ContextItem[str]]:
    """Give the notes that the pool does not have yet."""
    for note_id, (description, text) in NOTES.items():
        if note_id not in pool:
            yield ContextItem(text, description, note_id)


@tool
async def answer(
    question: str, pool: ContextPool[str], asked: ContextQueue[str]
) -> AsyncIterator[str | ContextItem[str]]:
    """Answer from the notes that fit best, and remember the question."""
    before = len(asked)
    yield ContextItem(question)
    notes = await pool.select(question, limit=1)
    yield notes[0].content if notes else "There is no note about that."
    yield f"({len(pool)} notes, {before} questions before)"


async def main(question: str, location: str = ":memory:") -> None:
    """Ask the assistant."""
    with refold.open(location) as store:
        assistant = Agent("assistant", "Answers from notes", [collect, answer], store=store)
        await assistant.put(Turn(collect))
        await assistant.put(Turn(answer, args=[question]))
        async for _, value in assistant.run():
            print(value)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
