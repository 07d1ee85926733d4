"""
One that real signals interrupt all the time: `python -m tests.interrupts.interrupted PLACE INTERRUPTS SEED`.

It writes through several contexts, with both durabilities, beside projections; prints the ids that were acknowledged.
"""

import json
import random
import signal
import sys
from collections.abc import Callable

import refold
from refold.domain.errors import ConcurrencyError

PAUSE_SECONDS_MAX = 0.004


class AlarmError(Exception):
    """What the signal handler raises."""


class Interrupts:
    """Signals at random moments, as many as are wanted; the handler raises."""

    def __init__(self, wanted: int, chance: random.Random) -> None:
        self.left, self._chance = wanted, chance
        signal.signal(signal.SIGALRM, self._handle)

    def _handle(self, *_: object) -> None:
        self.left -= 1
        raise AlarmError if self._chance.random() < 0.5 else KeyboardInterrupt

    def during(self, call: Callable[[], None]) -> None:
        """
        Run a call during which a signal comes, or not.
        """
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, self._chance.uniform(1e-5, PAUSE_SECONDS_MAX))
                call()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except (AlarmError, KeyboardInterrupt, ConcurrencyError):
            # A conflict is what an edit meets where an interrupted one was recorded all the same.
            return


class Writer:
    """Three contexts of one store, and what was acknowledged of each."""

    def __init__(self, place: str, chance: random.Random) -> None:
        self.store, self._chance = refold.open(place), chance
        self.chats = [self.store.chat("a"), self.store.chat("b")]
        self.queued = self.store.chat("q", durability="enqueue")
        self.acknowledged: list[str] = []
        self._queued: list[str] = []
        self._number = 0

    def _id(self) -> str:
        self._number += 1
        return f"m{self._number}"

    def append(self) -> None:
        """Add a message."""
        number = self._id()
        self._chance.choice(self.chats).add_message("user", "hello", message_id=number)
        self.acknowledged.append(number)

    def transact(self) -> None:
        """Add one to both chats, as one."""
        numbers = [self._id(), self._id()]
        with self.store.transaction():
            for chat, number in zip(self.chats, numbers, strict=True):
                chat.add_message("user", "together", message_id=number)
        self.acknowledged += numbers

    def enqueue(self) -> None:
        """Queue a message."""
        number = self._id()
        self.queued.add_message("user", "queued", message_id=number)
        self._queued.append(number)

    def flush(self) -> None:
        """Flush; all that was queued so far is acknowledged then."""
        numbers = list(self._queued)
        self.store.flush()
        self.acknowledged += numbers
        self._queued = self._queued[len(numbers) :]

    def edit(self) -> None:
        """Truncate a chat."""
        self._chance.choice(self.chats).truncate(max_items=50)

    def look(self) -> None:
        """Bring a projection up to date."""
        self.store.contexts()


def main(place: str, interrupts: int, seed: int) -> None:
    """
    Go on until all interrupts have come, then without; the last of all calls must work.
    """
    chance = random.Random(seed)
    writer, signals = Writer(place, chance), Interrupts(interrupts, chance)
    calls: list[Callable[[], None]] = [
        *[writer.append] * 6, writer.transact, *[writer.enqueue] * 3, writer.flush, writer.edit, writer.look
    ]  # fmt: skip
    while signals.left > 0:
        signals.during(chance.choice(calls))
    for chat in (*writer.chats, writer.queued):
        chat.refresh()
    for call in (writer.append, writer.transact, writer.enqueue, writer.flush, writer.edit, writer.look):
        call()
    for chat in (*writer.chats, writer.queued):
        shown = [item.id for item in chat.items]
        with refold.open(place) as other:
            assert shown == [item.id for item in other.chat(chat.id, create=False).items], "the view is another"
    writer.store.close()
    print(json.dumps(writer.acknowledged))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
