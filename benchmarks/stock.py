"""
The stock `eventsourcing` package: an application with an aggregate, used as its documentation does.

To append, the application gets the aggregate from the repository, changes it and saves it. `StockStore` knows the
version of the aggregate and puts ready events into the event store, which is the smallest amount of work with the
package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.persistence import IntegrityError
from psycopg.conninfo import conninfo_to_dict

from .database_size import postgres_bytes, sqlite_bytes
from .recorded import event_of
from .stock_projection import StockProjection
from .subject import BASE_BATCH, COMMON, Write, batches
from .workload import Item

PAGE = 2_048
PIPELINED = 50
Given = dict[str, Any]


class Conversation(Aggregate):
    """A list of items."""

    def __init__(self, context: str) -> None:
        self.context = context
        self.items: list[Given] = []

    @staticmethod
    def create_id(context: str) -> UUID:
        """Return the id of the conversation of this name."""
        return uuid5(NAMESPACE_URL, context)

    @event("ItemAdded")
    def add(self, item: Given) -> None:
        """Put an item at the end."""
        self.items.append(item)


class Stock:
    """An application on the package's own SQLite or PostgreSQL recorder."""

    name = "stock"

    def __init__(self, location: str) -> None:
        self.location = location
        self.app: Application[UUID]
        self._heads: dict[str, int] = {}
        self._projection: StockProjection | None = None

    def open(self) -> None:
        """Construct the application."""
        self.app = Application(env=_environment(self.location))

    def close(self) -> None:
        """Close it."""
        self.app.close()
        self._heads.clear()

    def _get(self, context: str, version: int | None = None) -> Conversation:
        found: Conversation = self.app.repository.get(Conversation.create_id(context), version=version)
        return found

    def _create(self, context: str) -> None:
        if Conversation.create_id(context) not in self.app.repository:
            self.app.save(Conversation(context))

    def build(self, context: str, items: Sequence[Item]) -> None:
        """Put events into the store, in batches."""
        self._create(context)
        # Its pipelined inserts into PostgreSQL can hang if they fill the buffer of the socket.
        for batch in batches(items, PIPELINED if "://" in self.location else BASE_BATCH):
            self.put(context, [self.ready(item) for item in batch])

    def put(self, context: str, given: Iterable[Given]) -> None:
        """Put the events that add items after the events that the conversation has."""
        conversation_id = Conversation.create_id(context)
        head = self._heads.get(context)
        if head is None:
            head = next(iter(self.app.events.get(conversation_id, desc=True, limit=1))).originator_version
        added: Any = Conversation.ItemAdded  # type: ignore[attr-defined]
        events = [
            added(
                originator_id=conversation_id,
                originator_version=version,
                timestamp=added.create_timestamp(),
                item=item,
            )
            for version, item in enumerate(given, head + 1)
        ]
        self.app.events.put(events)
        self._heads[context] = head + len(events)

    def warm(self, context: str) -> None:
        """Do nothing: each change gets the aggregate."""

    def ready(self, item: Item) -> Given:
        """Return the payload as a dict."""
        given: Given = msgspec.to_builtins(event_of(item))
        return given

    def ready_batch(self, items: Sequence[Item]) -> list[Given]:
        """Return the payloads as dicts."""
        return [self.ready(item) for item in items]

    def append(self, context: str, given: Given) -> object:
        """Get, change, save."""
        return self.append_batch(context, (given,))

    def append_turn(self, context: str, given: Sequence[Given]) -> object:
        """Get, change a few times, save."""
        return self.append_batch(context, given)

    def append_batch(self, context: str, given: Sequence[Given]) -> object:
        """Get, change many times, save."""
        conversation = self._get(context)
        for item in given:
            conversation.add(item)
        return self.app.save(conversation)

    def writer(self, context: str) -> Write:
        """Return a function that changes one conversation, kept in memory, and saves it."""
        self._create(context)
        conversation = self._get(context)

        def write(given: Any) -> None:
            conversation.add(given)
            self.app.save(conversation)

        return write

    def writers(self, contexts: Sequence[str]) -> list[Write]:
        """Return such functions; if several processes change a conversation, each change gets it again."""
        return [
            partial(self._write_common, context) if context.startswith(COMMON) else self.writer(context)
            for context in contexts
        ]

    def _write_common(self, context: str, given: Any) -> None:
        while True:
            with suppress(IntegrityError):
                self._create(context)
                self.append(context, given)
                return

    def load(self, context: str) -> object:
        """Get the conversation."""
        return self._get(context).items

    def load_public(self, context: str) -> object:
        """Get the conversation and look at each item."""
        return [(item["t"], item.get("content"), item["id"]) for item in self._get(context).items]

    def load_until(self, context: str, count: int) -> object:
        """Get an earlier version; the first event created the conversation."""
        return self._get(context, count + 1).items

    def tail(self, context: str, count: int) -> object:
        """Get the conversation and take its last items."""
        return self._get(context).items[-count:]

    def rebuild(self) -> int:
        """Read and decode all notifications, page by page."""
        recorder, mapper, start, count = self.app.recorder, self.app.mapper, 1, 0
        while notifications := recorder.select_notifications(start=start, limit=PAGE):
            count += len([mapper.to_domain_event(one) for one in notifications])
            start = notifications[-1].id + 1
        return count

    def project(self, events: int) -> int:
        """Make a projection from its beginning, one transaction for each event."""
        if self._projection is None:
            self._projection = StockProjection(self.app, _environment(self.location))
        return self._projection.run(events)

    def bytes_used(self) -> int:
        """Return the bytes on disk."""
        return postgres_bytes(self.location) if "://" in self.location else sqlite_bytes(Path(self.location))


class StockStore(Stock):
    """The event store alone: it stores and returns events, and no aggregate is made."""

    name = "stock put"

    def append_batch(self, context: str, given: Sequence[Given]) -> object:
        """Put events after the known head."""
        self.put(context, given)
        return None

    def load_until(self, context: str, count: int) -> object:
        """Get the events up to a version."""
        return [one.item for one in self._events(context, lte=count + 1)]

    def load(self, context: str) -> object:
        """Get all events."""
        return [one.item for one in self._events(context)]

    def tail(self, context: str, count: int) -> object:
        """Get the last events."""
        return [one.item for one in reversed(list(self._events(context, desc=True, limit=count)))]

    def _events(self, context: str, **wanted: Any) -> Iterable[Any]:
        wanted.setdefault("gt", None if wanted.get("desc") else 1)
        return self.app.events.get(Conversation.create_id(context), **wanted)


def _environment(location: str) -> dict[str, str]:
    if "://" not in location:
        return {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": location}
    parts = conninfo_to_dict(location)
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": str(parts["dbname"]),
        "POSTGRES_HOST": str(parts["host"]),
        "POSTGRES_USER": str(parts["user"]),
        "POSTGRES_PASSWORD": str(parts.get("password", "")) or "unused",
    }
