"""
The one that things are thrown at: `write()` is the whole life of its process.

Three threads write to one store as applications do: single items, transactions, queues with a barrier, large batches,
edits and projections. Item ids say which batch they belong to and how many items that has, so that half a batch can be
told from a whole one. What a call has acknowledged is written to a file after the call has returned.
"""

import faulthandler
import itertools
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import ConcurrencyError, DamagedError, LogWentBackError, StorageError, StorageUnavailableError
from refold.infrastructure.log.postgres.log import PostgresLog

from ..contract.writing import new
from ..postgres.sealing import small_blocks

HANDS = 3
# The large one is a single word: what looks at the search index afterwards is not to take the most time of all.
TEXTS = ("short", "text " * 50, "large" * 1_800)
KEPT_MAX = 50
# The seconds are those of one step: on a busy machine all steps of a child take long, but none of them for ever.
CHILD_STEPS, STEP_SECONDS_MAX = 12, 60
PAUSE_SECONDS_MAX = 0.008


class AlarmError(Exception):
    """What an application's own signal handler raises."""


INTERRUPTS = (KeyboardInterrupt, AlarmError)


class Task(NamedTuple):
    """Where a writer writes, under which name, and what may come to it."""

    place: str
    folder: Path
    name: str
    may_raise: tuple[type[Exception], ...] = ()
    exits_on_sigterm: bool = False


class Book:
    """The file in which a process writes down what it heard from its store, one line at a time, nothing buffered."""

    def __init__(self, task: Task) -> None:
        self._file = os.open(task.folder / f"{task.name}.book", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, **line: Any) -> None:
        """Write a line, and when."""
        os.write(self._file, f"{json.dumps({**line, 'until': time.monotonic()})}\n".encode())

    def acknowledge(self, since: float, said: Mapping[str, Sequence[str]]) -> None:
        """Write down which items are on disk, in which contexts, and when the call began."""
        self.write(since=since, said=said)


class Hand:
    """One thread's contexts, and what it waits for."""

    def __init__(self, store: refold.Store, task: Task, book: Book, number: int) -> None:
        self.store = store
        self._may_raise: tuple[type[Exception], ...] = (ConcurrencyError, *task.may_raise)
        self._own = f"own-{task.name}.{number}"
        self.begin(f"{task.name}.{number}", book)
        append, enqueue, transact = self.append, self.enqueue, self.transact
        others = (transact, transact, self.flush, self.in_bulk, self.edit, self.look)
        packs = [self.pack] if isinstance(store.log, PostgresLog) else []
        self.calls: Sequence[Callable[[], object]] = (*[append] * 6, *[enqueue] * 4, *others, *packs)

    def begin(self, name: str, book: Book) -> None:
        """Write under a name; what was queued before is the parent's."""
        self._name, self._book, self._numbers, self.chance = name, book, itertools.count(), random.Random(name)
        self._waiting: list[str] = []
        self._since = 0.0
        self._open()

    def _open(self) -> None:
        self.own, self.shared = self.store.chat(self._own), self.store.chat("shared")
        self.queue = self.store.chat(f"queued-{self._name}", durability="enqueue")

    @property
    def chats(self) -> tuple[refold.ChatContext, ...]:
        """Its contexts."""
        return self.own, self.shared, self.queue

    def _ids(self, *sizes: int) -> list[str]:
        number, size = next(self._numbers), self.chance.choice(sizes)
        return [f"{self._name}.{number}/{place}/{size}" for place in range(size)]

    def _say(self, chat: refold.ChatContext, item_id: str) -> None:
        chat.add_message("user", self.chance.choice(TEXTS), message_id=item_id)

    def append(self) -> None:
        """Add one item."""
        chat, ids, since = self.chance.choice([self.own, self.shared]), self._ids(1), time.monotonic()
        self._say(chat, ids[0])
        self._book.acknowledge(since, {chat.id: ids})

    def transact(self) -> None:
        """Add some items to two contexts, as one."""
        ids, since = self._ids(2, 3, 8), time.monotonic()
        with self.store.transaction():
            for place, item_id in enumerate(ids):
                self._say((self.own, self.shared)[place % 2], item_id)
        self._book.acknowledge(since, {self.own.id: ids[::2], self.shared.id: ids[1::2]})

    def enqueue(self) -> None:
        """Queue an item."""
        [item_id] = self._ids(1)
        self._since = self._since if self._waiting else time.monotonic()
        self._say(self.queue, item_id)
        self._waiting.append(item_id)

    def flush(self) -> None:
        """Wait for the queue, which acknowledges it."""
        waiting = list(self._waiting)
        self.queue.flush()
        self._book.acknowledge(self._since, {self.queue.id: waiting})
        # At once: an interrupt comes before or behind.
        self._waiting = self._waiting[len(waiting) :]

    def in_bulk(self) -> None:
        """Append a batch over several streams, as an import does."""
        ids, since, count = self._ids(4, 16), time.monotonic(), self.chance.choice([1, 2, 4])
        said = {f"bulk-{place}": ids[place::count] for place in range(count)}
        text = self.chance.choice(TEXTS)
        batch = [
            new(f"chat:{name}", *[MessageAdded(id=one, created_at=1.0, role="user", content=text) for one in part])
            for name, part in said.items()
        ]
        self.store.log.append(batch).result()
        self._book.acknowledge(since, said)

    def edit(self) -> None:
        """Truncate its own context."""
        self.own.truncate(max_items=KEPT_MAX)

    def look(self) -> None:
        """Bring a projection up to date."""
        self.store.contexts()

    def pack(self) -> None:
        """Pack all but the last events into blocks; rows that are put back meanwhile may seem damaged."""
        assert isinstance(self.store.log, PostgresLog)
        with suppress(DamagedError), small_blocks(kept=2):
            sum(self.store.log.sealing())

    def pause(self) -> None:
        """Let others write."""
        time.sleep(self.chance.uniform(0, PAUSE_SECONDS_MAX))

    def step(self) -> None:
        """Do something, and go on after what may happen."""
        self._attempt(self.chance.choice(self.calls))

    def _attempt(self, call: Callable[[], object]) -> None:
        try:
            call()
        except self._may_raise as error:
            self._note(error)
            self.catch_up()

    def call_each(self) -> None:
        """Do everything once."""
        for call in dict.fromkeys(self.calls):
            self._attempt(call)

    def _note(self, error: Exception) -> None:
        if isinstance(error, StorageError):
            # Refused, or perhaps recorded, without being acknowledged.
            self._waiting = []
        if isinstance(error, LogWentBackError):
            assert LogWentBackError in self._may_raise, f"nothing went back: {error}"
            gone = {error.stream, *(one.reference.rpartition("@")[0] for one in error.lost)}
            self._book.write(gone=[stream.removeprefix("chat:") for stream in gone])

    def catch_up(self) -> None:
        """Go on from what the log has, as soon as it answers."""
        waiting = list(self.chats)
        while waiting:
            try:
                waiting[0].refresh()
                if not waiting[0].version:
                    self._open()
                del waiting[0]
            except self._may_raise as error:
                self._note(error)
                self.pause()
                if isinstance(error, LogWentBackError):
                    with suppress(StorageUnavailableError):
                        waiting[0].cleanup()

    def end(self) -> None:
        """Whatever came before, everything works now; and each view is that of one who opens the context anew."""
        self.catch_up()
        self.call_each()
        for call in dict.fromkeys(self.calls):
            with suppress(ConcurrencyError):
                call()
        self.flush()


class Signals:
    """What comes to the writer's first thread."""

    def __init__(self, task: Task) -> None:
        self._chance = random.Random(task.name)
        self._is_exposed, self.forks = False, 0
        self.stop = threading.Event()
        for number, handler in {
            signal.SIGINT: self._interrupt,
            signal.SIGUSR1: lambda *_: self.stop.set(),
            signal.SIGUSR2: self._fork,
            **({signal.SIGTERM: self._exit} if task.exits_on_sigterm else {}),
        }.items():
            signal.signal(number, handler)

    def _interrupt(self, *_: object) -> None:
        # Only a call is interrupted, and not what goes on after it.
        if self._is_exposed:
            self._is_exposed = False
            raise self._chance.choice(INTERRUPTS)

    def _exit(self, *_: object) -> None:
        # Python drops what comes upon a callback of a weak reference.
        self.stop.set()
        sys.exit()

    def _fork(self, *_: object) -> None:
        self.forks += 1

    def during(self, call: Callable[[], object]) -> None:
        """Do something that may be interrupted."""
        try:
            self._is_exposed = True
            call()
            self._is_exposed = False
        except BaseException as error:
            # The interpreter itself may meet another error while one passes, as when a thread is started.
            if not isinstance(error, INTERRUPTS) and not isinstance(error.__context__, INTERRUPTS):
                raise


class Family:
    """The children that a writer forks; each writes with what it has inherited, and ends in another way."""

    def __init__(self, task: Task, hands: Sequence[Hand]) -> None:
        self._task, self._hands = task, hands
        self._children: list[int] = []
        self._workers: list[Any] = []

    def fork(self) -> None:
        """Fork, while other threads write."""
        number = len(self._children) + len(self._workers)
        if number % 3 == 0:
            worker = multiprocessing.get_context("fork").Process(target=self._work, args=(number,))
            self._workers.append(worker)
            worker.start()
            return
        child = os.fork()
        if child:
            self._children.append(child)
            return
        try:
            self._work(number)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        # With all finalisers, or without.
        sys.exit() if number % 3 == 1 else os._exit(0)

    def _work(self, number: int) -> None:
        signal.alarm(STEP_SECONDS_MAX)
        # A process of multiprocessing joins, at its end, those that it takes for its own.
        multiprocessing.process._children.clear()  # type: ignore[attr-defined]
        task = self._task._replace(name=f"{self._task.name}-{number}")
        book = Book(task)
        for place, hand in enumerate(self._hands):
            hand.begin(f"{task.name}.{place}", book)
        hands = list(itertools.islice(itertools.cycle(self._hands), CHILD_STEPS))
        calls: list[Callable[[], object]] = [*[hand.step for hand in hands], *[hand.flush for hand in self._hands]]
        for call in calls:
            signal.alarm(STEP_SECONDS_MAX)
            call()
        # Its end is a step, too.
        signal.alarm(STEP_SECONDS_MAX)

    def wait(self) -> None:
        """Require that all have ended well."""
        for child in self._children:
            _require_good_end("a forked child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        for worker in self._workers:
            worker.join()
            _require_good_end("a worker of multiprocessing", worker.exitcode)


def _require_good_end(name: str, code: int) -> None:
    hung = f"hung for {STEP_SECONDS_MAX} s in one step"
    assert code == 0, f"{name} {hung if code == -signal.SIGALRM else f'ended with {code}'}"


def write(task: Task, ready: Connection) -> None:
    """Write until something ends it; SIGUSR1 asks it to check its own views, and to end."""
    _speak_into(task.folder / f"{task.name}.said")
    with refold.open(task.place) as store:
        book = Book(task)
        store.chat("shared")
        with store.transaction():
            hands = [Hand(store, task, book, number) for number in range(HANDS)]
        # Each call once: Python has an import fail in other threads, too, that wait for one which is interrupted.
        hands[0].call_each()
        family, signals = Family(task, hands), Signals(task)
        threads = [threading.Thread(target=_repeat, args=(hand, signals.stop)) for hand in hands[1:]]
        with ExitStack() as ending:
            for thread in threads:
                thread.start()
                ending.callback(thread.join)
            ending.callback(signals.stop.set)
            ready.send(True)
            while not signals.stop.is_set():
                hands[0].pause()
                signals.during(hands[0].step)
                if signals.forks:
                    signals.forks -= 1
                    family.fork()
        family.wait()
        for hand in hands:
            hand.end()
        _compare(task.place, hands, book)


def _repeat(hand: Hand, stop: threading.Event) -> None:
    try:
        while not stop.is_set():
            hand.pause()
            hand.step()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _compare(place: str, hands: Sequence[Hand], book: Book) -> None:
    """Each view is that of somebody who opens the context anew."""
    with refold.open(place) as other:
        for chat in [chat for hand in hands for chat in (hand.own, hand.queue)]:
            shown = [item.id for item in other.chat(chat.id, create=False).items]
            assert [item.id for item in chat.items] == shown, f"the view of {chat.id} is another"
            # So that it is seen to go on.
            book.write(compared=chat.id)


def _speak_into(path: Path) -> None:
    """Keep what is said on stderr, and at a SIGABRT, or a SIGALRM of a child, what each thread is at."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 2)
    faulthandler.enable(2)
    faulthandler.register(signal.SIGALRM, 2, chain=True)
