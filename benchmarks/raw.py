"""The common code of the bare databases: one table of events, and connections that decode its rows into Structs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from refold.domain.chat.events import ChatEvent
from refold.domain.pool.events import PoolEvent, QueueEvent
from refold.domain.trajectory.events import RunEvent

from .recorded import payload_of, stream_key
from .subject import Write, batches
from .workload import Item


class Raw(ABC):
    """One table in one database; `Subject` documents the methods."""

    name = "raw"
    # The statements for the last version of a context, for its rows up to a version, and for its last ones backwards.
    head: str
    select: str
    last: str
    # A version that no context reaches.
    everything: int

    def __init__(self, location: str) -> None:
        self.location = location
        # Of chats, and of runs.
        self._decode = msgspec.msgpack.Decoder(ChatEvent | RunEvent | QueueEvent | PoolEvent).decode
        self._connection: Any
        self._others: list[Any] = []
        self._heads: dict[str, int] = {}
        self._streams: dict[str, int] = {}

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _writer(self, connection: Any, context: str) -> Write: ...

    @abstractmethod
    def _rows(self, statement: str, *values: int) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""

    @abstractmethod
    def append_batch(self, context: str, given: Sequence[bytes]) -> object:
        """Insert many rows in one transaction."""

    def close(self) -> None:
        for connection in (*self._others, self._connection):
            connection.close()
        self._others.clear()
        self._heads.clear()

    def _key(self, context: str) -> int:
        key = self._streams.get(context)
        if key is None:
            key = self._streams[context] = stream_key(context)
        return key

    def _next(self, context: str, count: int = 1) -> int:
        head = self._heads.get(context)
        if head is None:
            head = self._rows(self.head, self._key(context))[0][0]
        self._heads[context] = head + count
        return head + 1

    def build(self, context: str, items: Sequence[Item]) -> None:
        for batch in batches(items):
            self.append_batch(context, self.ready_batch(batch))

    def warm(self, context: str) -> None:
        self._next(context, 0)

    def ready(self, item: Item) -> bytes:
        return payload_of(item)

    def ready_batch(self, items: Sequence[Item]) -> list[bytes]:
        return [payload_of(item) for item in items]

    def append_turn(self, context: str, given: Sequence[bytes]) -> object:
        return self.append_batch(context, given)

    def writer(self, context: str) -> Write:
        connection = self._connect()
        self._others.append(connection)
        return self._writer(connection, context)

    def writers(self, contexts: Sequence[str]) -> list[Write]:
        return [self._writer(self._connection, context) for context in contexts]

    def load(self, context: str) -> object:
        return self.load_until(context, self.everything)

    def load_public(self, context: str) -> object:
        return self.load(context)

    def load_until(self, context: str, count: int) -> list[Any]:
        decode = self._decode
        return [decode(row[2]) for row in self._rows(self.select, self._key(context), count)]

    def tail(self, context: str, count: int) -> list[Any]:
        decode = self._decode
        return [decode(row[2]) for row in reversed(self._rows(self.last, self._key(context), count))]
