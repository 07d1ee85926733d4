"""Something of every kind in a store, so that each of its projections has rows; and ways to compare those."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.positions import BEGINNING
from refold.infrastructure.projecting.folding import fold_page
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.projections.contract import Projection
from refold.window import ContextItem as WindowItem

from ..domain.memory.remembering import about
from .run_lives import Life

EVENTS_MAX = 1_000_000


def something_of_everything(store: refold.Store, seed: int = 0) -> None:
    """Let something happen in contexts of every kind, always the same for a seed."""
    _talk(store, f"c{seed}")
    asyncio.run(_collect(store, f"b{seed}"))
    Life(store, seed, goes_back=True).go_on(25)
    store.name_moment(f"after-{seed}")


def _talk(store: refold.Store, context_id: str) -> None:
    chat = store.chat(context_id, user="mia", agent="triage")
    for number in range(4):
        chat.add_message("user", f"question {number} of {context_id}")
        chat.add_function_call("look", "{}", call_id=f"call{number}")
        chat.add_function_output("look", f"found {number}", call_id=f"call{number}")
        chat.add_message("assistant", f"answer {number}")
    fork = chat.fork(f"{context_id}-fork")
    fork.add_message("user", "What else?")
    chat.truncate(max_items=5)
    asyncio.run(chat.merge(fork))
    with store.transaction():
        chat.add_message("user", "in one")
        fork.add_message("user", "in one, too")


async def _collect(store: refold.Store, context_id: str) -> None:
    pool = store.pool(context_id, limit=2)
    for number in range(3):
        await pool.add(refold.PoolItem(f"note {number}", "about", f"k{number}"))
    queue = store.queue(context_id, limit=2)
    await queue.append(*(refold.PoolItem(f"entry {number}", "about") for number in range(3)))
    await queue.clear()
    window = store.window(context_id, max_tokens=20)
    for number in range(3):
        window.add(WindowItem(f"item{number}", "v" * 9, "tool", number))
    memory = store.memory()
    await memory.put(about("likes", "tea", scope=context_id))
    await memory.forget(scope=context_id)


def talk_at_length(store: refold.Store, events: int, context_id: str = "long") -> refold.ChatContext:
    """Add as many messages to a context, in bulk."""
    chat = store.chat(context_id)
    start = chat.version
    for first in range(start, start + events, 1_000):
        numbers = range(first, min(first + 1_000, start + events))
        chat.record_items(
            [MessageAdded(id=f"m{one}", created_at=1.0, role="user", content=f"word{one} said") for one in numbers]
        )
    return chat


def projections_of(store: refold.Store) -> dict[str, Projection]:
    """Return all projections of a store by their names."""
    known = store._runner.projections
    return {status.name: known[status.name] for status in store.projections()}


def canonical(rows: list[Any]) -> bytes:
    """Return rows in the form in which equal ones are equal byte for byte."""
    return msgspec.msgpack.encode(rows)


def live_rows(store: refold.Store) -> dict[str, bytes]:
    """Return what each projection of a store answers."""
    return {name: canonical(store.rows(name)) for name in projections_of(store)}


def stored_rows(store: refold.Store, *names: str) -> dict[str, bytes]:
    """Return the rows of some projections, or of all, as they are: without bringing them up to date."""
    known = projections_of(store) if not names else {name: store._runner.projections[name] for name in names}
    return {name: canonical(store._projections.rows(one)) for name, one in known.items()}


def folded_rows(store: refold.Store) -> dict[str, bytes]:
    """Return what one fold of the whole log gives for each projection."""
    events = store.log.read_all(after=BEGINNING, limit=EVENTS_MAX).events
    return {name: canonical(_folded(one, events)) for name, one in projections_of(store).items()}


def _folded(projection: Projection, events: Any) -> list[Any]:
    rows = fold_page(projection, events, MemoryProjectionStore())
    # A text column of PostgreSQL cannot hold a NUL, and shows its symbol instead.
    return [rows[key] for key in sorted(rows)]
