"""Each mistake of the table is refused at the call, on every kind of store, and not a byte changes."""

import asyncio
import hashlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import ConcurrencyError
from refold.domain.positions import BEGINNING
from refold.infrastructure import exchange, importing
from refold.infrastructure.exchange.parquet import export_parquet
from tests.domain.llm.models import ScriptedLLM

from .table import DEEP, MISTAKES, NUMBER, Mistake


class World:
    """A store with a context of each kind, and what it holds."""

    def __init__(self, location: str) -> None:
        self.store = store = refold.open(location)
        self.chat = store.chat("talk")
        self.item = self.chat.add_message("user", "one", idempotency_key="k")
        for text in ("two", "three", "four"):
            self.chat.add_message("user", text)
        self.queue, self.pool, self.window = store.queue("notes"), store.pool("docs"), store.window("prompt")
        self.run = store.run("mia", "s")
        # Answers bring projections up to date, and write their rows.
        store.validity("talk")
        store.contexts()

    def attempt(self, call: str) -> object:
        """Make a call of the table, and wait for it."""
        names = {**vars(importing), **vars(exchange), "export_parquet": export_parquet}
        names |= {**vars(self), "refold": refold, "model": ScriptedLLM(), "DEEP": DEEP, "NUMBER": NUMBER}
        result = eval(call, names)
        return asyncio.run(waited(result)) if inspect.isawaitable(result) else result

    def stored(self) -> list[object]:
        """Return all that is stored: the digests of all events, and the bytes of the files."""
        events = self.store.log.read_all(after=BEGINNING, limit=1_000).events
        files = [Path(name) for name in self.store.log.files()]
        hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.exists()]
        return [*(one.digest for one in events), self.chat.version, len(self.chat.items), *hashes]


async def waited(result: Any) -> object:
    """Return what a call of the table gives in the end."""
    return await result


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all mistakes of a store: none of them may change it."""
    if request.param == "postgres":
        with request.getfixturevalue("pg_server").database() as url:
            made = World(url)
            yield made
            made.store.close()
        return
    made = World(":memory:" if request.param == "memory" else str(tmp_path_factory.mktemp("mistakes") / "store.db"))
    yield made
    made.store.close()


@pytest.mark.parametrize("mistake", MISTAKES, ids=[one.call for one in MISTAKES])
def test_it_is_refused(world: World, mistake: Mistake) -> None:
    """With an error of the tree, whose message names the fault; and what is stored stays byte for byte."""
    before = world.stored()

    with pytest.raises(mistake.error) as caught:
        world.attempt(mistake.call)

    assert mistake.message in str(caught.value)
    assert world.stored() == before


def test_a_version_that_is_too_high_is_not_tried_again(world: World) -> None:
    """Trying again cannot help: the stream has not reached it."""
    tried: list[int] = []

    def change(context: Any) -> object:
        tried.append(1)
        return context.add_message("user", "x", expected_version=99)

    async def change_queue(queue: Any) -> object:
        tried.append(1)
        return await queue.append(refold.PoolItem("x"), expected_version=99)

    with pytest.raises(ConcurrencyError, match="has no version 99 yet"):
        world.chat.rebase(change)
    with pytest.raises(ConcurrencyError, match="has no version 99 yet"):
        asyncio.run(world.queue.rebase(change_queue))
    assert len(tried) == 2
