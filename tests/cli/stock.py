"""Contexts of every kind but chats, that the tests of commands begin with."""

import asyncio
from pathlib import Path

import refold as package
from refold.domain.content import Content
from refold.domain.memory.records import MemoryRecord
from refold.domain.pool.events import QueueAppended
from refold.domain.pool.items import ContextItem
from refold.domain.pool.rules import Add
from refold.domain.window.items import ContextItem as WindowItem

# An instance of a class that no program here has.
NOTE = QueueAppended(content=Content(json=b'{"cups":3}', type="elsewhere:Note"))


def stock(path: Path | str) -> None:
    """
    Put the queue `notes` into a database, at version 6, the pool `docs` at 5, the window `prompt` at 4 and the memory
    `mia` at 4.
    """
    with package.open(path, synchronous="NORMAL") as store, package.acting(actor="mia"):
        asyncio.run(_fill(store))
        window = store.window("prompt", max_tokens=40)
        window.add(WindowItem("rules", "Be brief.", "app", 5))
        window.add(WindowItem("book", "word " * 100, "app"))
        window.put(WindowItem("rules", "Be kind.", "mia"))
        memory = store.memory().scope("mia")
        memory.put(MemoryRecord(scope="mia", key="tea", value="green", tags=["drink"]))
        memory.put(MemoryRecord(scope="mia", key="cups", value={"a day": 2}))
        memory.put(MemoryRecord(scope="mia", key="tea", value="black"))
        memory.forget("cups", reason="she stopped")


async def _fill(store: package.Store) -> None:
    queue = store.queue("notes", limit=3, tags=["tea"])
    await queue.append(ContextItem("Mia drinks tea.", "about Mia"))
    await queue.append(ContextItem({"cups": 2}))
    queue.put_in(Add((NOTE,)))
    await queue.append(ContextItem("She has a cat."))
    pool = store.pool("docs")
    await pool.add(ContextItem("Read me first.", "The readme", "readme"))
    await pool.add(ContextItem({"q": "why?"}, "Questions", "faq"))
    await pool.add(ContextItem("Read me now.", "The new readme", "readme"))
    await pool.remove("faq", reason="too long")
