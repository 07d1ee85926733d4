"""Stand-ins for ports: a clock that does as it is told, a log that is slow, late or that others write to."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.rules.decide import CHAT
from refold.domain.concurrency.promises import Promise
from refold.domain.context.folded_stream import Durability, Place
from refold.domain.context.journal import Journal
from refold.domain.log.envelope import Meta
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import ANY_VERSION, LiveLog, Log, NewEvents, Pending, Receipt

from .chat_events import OPENED, STREAM, said


class CountingSystem:
    """Time goes on by a second with every look at it; ids are counted."""

    def __init__(self, start: float = 1_000.0) -> None:
        self.time = start
        self.ids = 0

    def now(self) -> float:
        """Return one second more than last time."""
        self.time += 1
        return self.time

    def new_id(self, prefix: str) -> str:
        """Return the prefix and the next number, in 12 hexadecimal digits."""
        self.ids += 1
        return f"{prefix}{self.ids:012x}"


def appending_threads(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return the threads, by their numbers, in which a log will be appended to from now on."""
    threads: set[int] = set()
    append = log.append

    def noted(*arguments: Any, **options: Any) -> Any:
        threads.add(threading.get_ident())
        return append(*arguments, **options)

    monkeypatch.setattr(log, "append", noted)
    return threads


class SlowLog(MemoryLog):
    """A log whose disk takes its time: every append sleeps."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        """Sleep, then append."""
        time.sleep(self._seconds)
        return super().append(batch, wait=wait)


class LateLog(MemoryLog):
    """
    A log that keeps what is not waited for until `land()` or an append that is waited for, as a disk may.

    `promise` makes the results.
    """

    def __init__(self, promise: Callable[[], Promise[list[Receipt]]] = Promise) -> None:
        super().__init__()
        self._promise = promise
        self._queue: list[tuple[list[NewEvents], Promise[list[Receipt]]]] = []
        self._landing = threading.Lock()

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        """Queue the batch; one that is waited for lands at once, with all before it."""
        future = self._promise()
        self._queue.append((list(batch), future))
        if wait:
            self.land()
        return future

    def land(self) -> None:
        """Append all that is queued, in order."""
        with self._landing:
            queue, self._queue = self._queue, []
            for batch, future in queue:
                done = super().append(batch)
                error = done.exception()
                if error is None:
                    future.set_result(done.result())
                else:
                    future.set_exception(error)


class DisturbedLog(MemoryLog):
    """A log to which another writer gets first: `disturb` runs before each of the next appends."""

    def __init__(self, disturb: Callable[[], object] | None = None, times: int = 0) -> None:
        super().__init__()
        self.disturb, self.times = disturb, times

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        """Let the other writer go first, then append."""
        if self.disturb is not None and self.times > 0:
            self.times -= 1
            disturb, self.disturb = self.disturb, None
            disturb()
            self.disturb = disturb
        return super().append(batch, wait=wait)


def record(log: Log, *events: Any, stream: str = STREAM) -> Receipt:
    """Write events to a stream behind everybody's back."""
    new = NewEvents(
        stream=stream, expected_version=ANY_VERSION, events=events, metas=(Meta(),) * len(events), root=stream
    )
    return log.append([new]).result()[0]


def handle_on(log: Log, stream: str = STREAM, *, durability: Durability = "commit") -> ChatContext:
    """Return a chat context on a stream of a log, at its head and not loaded, as a store would give it."""
    place = Place(stream, stream, "triage")
    return ChatContext(journal=Journal(log, place, CHAT, version=log.head(stream), durability=durability))


def texts(context: Any) -> list[str]:
    """Return what the messages of a context say."""
    return [item.content if isinstance(item.content, str) else "|".join(item.content) for item in context.messages()]


def kept(log: MemoryLog) -> ChatContext:
    """Open a stream with one message and return a loaded handle on it."""
    record(log, OPENED, said("m1", "one"))
    chat = handle_on(log)
    _ = chat.items
    return chat
