"""Refold, through its public calls, on either database."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from contextlib import closing
from pathlib import Path
from typing import Any

import refold
from refold.infrastructure.databases import stored_log
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.runner import ProjectionRunner
from refold.infrastructure.projecting.store import ProjectionStore
from refold.infrastructure.projecting.worker import ProjectionWorker
from refold.projections.catalogue import Catalogue

from .database_size import postgres_bytes, sqlite_bytes
from .recorded import ROLES, event_of, public_item
from .subject import SHARED, Write, batches
from .workload import Item

_VERSIONS = itertools.count(1_000)


class Ours:
    """A store of Refold at a path or a URL; `options` are those of `refold.open`."""

    name = "ours"

    def __init__(self, location: str, **options: Any) -> None:
        self.location, self._options = location, options
        self.store: refold.Store
        self._chats: dict[str, refold.ChatContext] = {}

    def open(self) -> None:
        """Open the store."""
        self.store = refold.open(self.location, **self._options)

    def close(self) -> None:
        """Close it, and forget its contexts."""
        self._chats.clear()
        self.store.close()

    def _chat(self, context: str) -> refold.ChatContext:
        chat = self._chats.get(context)
        if chat is None:
            chat = self._chats[context] = self.store.chat(context)
        return chat

    def build(self, context: str, items: Sequence[Item]) -> None:
        """Record items in batches."""
        chat = self._chat(context)
        for batch in batches(items):
            chat.record_items([event_of(item) for item in batch])

    def warm(self, context: str) -> None:
        """Load the context's state."""
        self._chat(context).recorded_items()

    def ready(self, item: Item) -> Item:
        """Return the item itself: a caller has texts and names."""
        return item

    def append(self, context: str, given: Item) -> object:
        """Append by the call for this kind of item."""
        return add(self._chat(context), given)

    def append_turn(self, context: str, given: Sequence[Item]) -> object:
        """Append by several calls within one transaction."""
        chat = self._chat(context)
        with self.store.transaction():
            for item in given:
                add(chat, item)
        return chat

    def ready_batch(self, items: Sequence[Item]) -> list[Any]:
        """Return the items as `add_items` takes them."""
        return [public_item(item) for item in items]

    def append_batch(self, context: str, given: Sequence[Any]) -> object:
        """Append by `add_items`."""
        return self._chat(context).add_items(given)

    def writer(self, context: str) -> Write:
        """Return the calls of one context; those of a common session are in one slice."""
        chat = self.store.chat(context, session=SHARED if context.startswith(SHARED) else None)
        return lambda item: add(chat, item)

    def writers(self, contexts: Sequence[str]) -> list[Write]:
        """Return the calls of each context."""
        return [self.writer(context) for context in contexts]

    def load(self, context: str) -> object:
        """Open the context anew and read it all."""
        return self.store.chat(context).recorded_items()

    def load_public(self, context: str) -> object:
        """Open the context again and read every public item."""
        return read_public(self.store.chat(context).items)

    def load_until(self, context: str, count: int) -> object:
        """Read an earlier version; the first event opened the context."""
        return self.store.chat(context).at(count + 1).recorded_items()

    def tail(self, context: str, count: int) -> object:
        """Open the context anew and read its last items."""
        return self.store.chat(context).tail(count)

    def rebuild(self) -> int:
        """Fold the catalogue from the beginning, under a version that nobody has folded yet, and store its rows."""
        projection = Catalogue()
        projection.version = next(_VERSIONS)
        runner = ProjectionRunner(self.store.log, self._projection_store(), [projection])
        rows = runner.rows(projection)
        return sum(row.version for row in rows)

    def rebuild_by(self, executor: Executor) -> int:
        """Have the workers of an executor rebuild the catalogue."""
        return self.store.rebuild("catalogue", executor=executor, restart=True).events

    def follow(self) -> None:
        """Have a worker bring all projections up to date from the beginning of the log."""
        rows = self._projection_store()
        for projection in PROJECTIONS:
            rows.drop(projection)
        worker = ProjectionWorker(self.store.log, rows, PROJECTIONS)
        worker.work()
        # Otherwise the next worker would leave its share to this one, and fold nothing.
        worker._crew.release()
        late = [one.name for one in self.store.projections() if one.behind]
        if late:
            raise AssertionError(f"not brought up to date: {', '.join(late)}")

    def rest(self) -> None:
        """Seal complete segments, as Refold does when nobody writes for some time."""
        seal = getattr(stored_log(self.store.log), "_seal_slice", lambda: False)
        while seal():
            pass

    def _projection_store(self) -> ProjectionStore:
        log: Any = self.store.log
        if "://" in self.location:
            from refold.infrastructure.projecting.rows.postgres import PostgresProjectionStore

            rows: ProjectionStore = PostgresProjectionStore(log)
            return rows
        from refold.infrastructure.projecting.rows.sqlite import SqliteProjectionStore

        return SqliteProjectionStore(log)

    def bytes_used(self) -> int:
        """Return the bytes on disk."""
        if "://" not in self.location:
            return sqlite_bytes(Path(self.location))
        with closing(refold.open(self.location, **self._options)) as store:
            sum(stored_log(store.log).sealing())
        return postgres_bytes(self.location)


def add(chat: refold.ChatContext, item: Item) -> object:
    """Add an item by the public call for its kind."""
    if item.kind == "call":
        return chat.add_function_call(item.name, item.text, item.call_id)
    if item.kind == "output":
        return chat.add_function_output(item.name, item.text, item.call_id)
    return chat.add_message(ROLES[item.kind], item.text)


def read_public(items: Iterable[Any]) -> list[tuple[str, str, str]]:
    """Read role, text and id of each item."""
    read: list[tuple[str, str, str]] = []
    for item in items:
        if item.type == "message":
            read.append((item.role, item.content[0], item.id))
        elif item.type == "function_call":
            read.append(("call", item.arguments, item.id))
        else:
            read.append(("output", item.output, item.id))
    return read
