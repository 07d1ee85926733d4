"""
The one that is killed: `python -m tests.crash.writer PLACE ACKNOWLEDGED SEED`.

Four threads write as applications do: one item at a time, transactions over two contexts, queues with a
barrier, and large batches. Item ids say which batch they belong to and how many items it has, so that half a
batch can be told from a whole one. What was acknowledged is written to a file and synced.
"""

import json
import os
import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from refold.domain.chat import ChatContext
from refold.domain.chat.events import MessageAdded, Opened
from refold.domain.chat.rules.decide import CHAT
from refold.domain.envelope import Meta
from refold.domain.errors import ConcurrencyError
from refold.domain.journal import Durability, Journal, Place
from refold.domain.ports import ANY_VERSION, LiveLog, NewEvents
from refold.domain.transaction import transaction

from ..contract.stores import log_at

TEXTS = ("short", "text " * 50, "large " * 1_500)
SHARED = "chat:shared"


class Work:
    """What all threads of the writer share: the log, the seed, and the file of what was acknowledged."""

    def __init__(self, log: LiveLog, acknowledged: str, seed: str) -> None:
        self.log, self.seed = log, seed
        self._file = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def acknowledge(self, ids: Iterable[str]) -> None:
        """
        Write down, durably, that items were said to be on disk.
        """
        with self._lock:
            os.write(self._file, (json.dumps(list(ids)) + "\n").encode())
            os.fsync(self._file)

    def ids(self, thread: str, number: int, size: int) -> list[str]:
        """
        Return the ids of one batch: which it is, the place in it, its size.
        """
        return [f"{self.seed}.{thread}.{number}/{place}/{size}" for place in range(size)]

    def chat(self, stream: str, durability: Durability = "commit") -> ChatContext:
        """
        Open a context, or create it.
        """
        if not self.log.head(stream):
            new = NewEvents(stream=stream, expected_version=0, events=(Opened(),), metas=(Meta(),), root="crash")
            error = self.log.append([new]).exception()
            assert error is None or isinstance(error, ConcurrencyError), error
        place = Place(stream, "crash")
        return ChatContext(journal=Journal(self.log, place, CHAT, version=self.log.head(stream), durability=durability))


def single(work: Work, chance: random.Random) -> None:
    """
    One item at a time, to a context of its own and to one that all write to.
    """
    chats = [work.chat(f"chat:single-{work.seed}"), work.chat(SHARED)]
    for number in range(10**9):
        ids = work.ids("single", number, 1)
        chats[number % 2].add_message("user", chance.choice(TEXTS), message_id=ids[0])
        work.acknowledge(ids)


def together(work: Work, chance: random.Random) -> None:
    """
    Transactions over two contexts: one batch each.
    """
    left, right = work.chat("chat:left"), work.chat("chat:right")
    for number in range(10**9):
        ids = work.ids("together", number, chance.choice([2, 3, 8]))
        with transaction(work.log):
            for place, item_id in enumerate(ids):
                (left, right)[place % 2].add_message("user", chance.choice(TEXTS), message_id=item_id)
        work.acknowledge(ids)


def queued(work: Work, chance: random.Random) -> None:
    """
    Items that are queued, each a batch of its own; a barrier now and then acknowledges them.
    """
    chat = work.chat(f"chat:queued-{work.seed}", "enqueue")
    waiting: list[str] = []
    for number in range(10**9):
        [item_id] = work.ids("queued", number, 1)
        chat.add_message("user", chance.choice(TEXTS), message_id=item_id)
        waiting.append(item_id)
        if len(waiting) >= chance.choice([5, 20, 60]):
            chat.flush()
            work.acknowledge(waiting)
            waiting.clear()


def in_bulk(work: Work, chance: random.Random) -> None:
    """
    Batches of many events over several streams, as an import makes them.
    """
    for number in range(10**9):
        ids = work.ids("bulk", number, chance.choice([4, 40, 200]))
        streams = [f"chat:bulk-{place}" for place in range(chance.choice([1, 2, 4]))]
        batch = [new_events(stream, ids[place :: len(streams)], chance) for place, stream in enumerate(streams)]
        work.log.append(batch).result()
        work.acknowledge(ids)


def new_events(stream: str, ids: list[str], chance: random.Random) -> NewEvents:
    """
    Return a message for each id.
    """
    events = tuple(
        MessageAdded(id=item_id, created_at=1.0, role="user", content=chance.choice(TEXTS)) for item_id in ids
    )
    metas = (Meta("bulk"),) * len(events)
    return NewEvents(stream=stream, expected_version=ANY_VERSION, events=events, metas=metas, root="crash")


def run(work: Work, writers: list[Callable[[Work, random.Random], None]]) -> None:
    """
    Write until killed; the first error of any thread ends the process with its traceback.
    """

    def guarded(write: Any, number: int) -> None:
        try:
            write(work, random.Random(f"{work.seed}-{number}"))
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    threads = [threading.Thread(target=guarded, args=(write, number)) for number, write in enumerate(writers)]
    for thread in threads:
        thread.start()
    print("writing", flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    place, acknowledged, seed = sys.argv[1:]
    run(Work(log_at(place), acknowledged, seed), [single, together, queued, in_bulk])
