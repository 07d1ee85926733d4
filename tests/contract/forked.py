"""Programs that fork: `python -m tests.contract.forked CASE PLACE` prints what its processes were acknowledged."""

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import refold
from refold.domain.concurrency import locks
from refold.domain.errors import DecisionRefusedError, StorageUnavailableError
from refold.projections.catalogue import CatalogueRow

CHILD_SECONDS_MAX = 60
Written = list[str]
LEFT_OPEN: list[refold.Store] = []


class Children:
    """Forked processes, and what they say they have written."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, int]] = []

    def start(self, work: Callable[[], Written], *, leave: Callable[[int], Any] = os._exit) -> None:
        """Fork, do `work` in the child, and end that."""
        reading, writing = os.pipe()
        child = os.fork()
        if child:
            os.close(writing)
            self._ends.append((child, reading))
            return
        # Whoever hangs is killed.
        signal.alarm(CHILD_SECONDS_MAX)
        try:
            os.write(writing, json.dumps(work()).encode())
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        leave(0)

    def written(self) -> Written:
        """Wait for all, and return what they have written."""
        written: Written = []
        for child, reading in self._ends:
            _, status = os.waitpid(child, 0)
            assert status == 0, f"a child ended with {status}"
            with open(reading) as told:
                written += json.loads(told.read())
        return written


def write(chat: refold.ChatContext, name: str, count: int) -> Written:
    """Write messages, and return them."""
    return [str(chat.add_message("user", f"{name}.{number}").content[0]) for number in range(count)]


@contextmanager
def threads_at(*works: Callable[[], object]) -> Iterator[None]:
    """Have threads repeat their works during the block."""
    stop = threading.Event()

    def repeat(work: Callable[[], object]) -> None:
        while not stop.is_set():
            work()

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def parent_closes_first(place: str) -> Written:
    """The parent lets go of the store before its child, which had it open too, has written."""
    store, children = refold.open(place), Children()
    written = write(store.chat("a"), "before", 3)
    reading, writing = os.pipe()

    def work() -> Written:
        mine = write(store.chat("a"), "child", 2)
        os.read(reading, 1)
        return mine + write(store.chat("a"), "late", 40)

    children.start(work)
    written += write(store.chat("a"), "parent", 3)
    store.close()
    os.write(writing, b"x")
    return written + children.written()


def child_ends_first(place: str) -> Written:
    """A child that never looked at the store ends as a program does, with all its finalisers; its parent goes on."""
    with refold.open(place) as store:
        chat, children = store.chat("a"), Children()
        written = write(chat, "before", 3)
        # The end of a program passes through the `with` block above, which closes the store.
        children.start(list, leave=sys.exit)
        written += children.written()
        children = Children()
        children.start(lambda: write(chat, "child", 3), leave=sys.exit)
        written += children.written()
        return written + write(chat, "after", 3)


def queued(place: str) -> Written:
    """The parent's queued events are the parent's; a child sees what is recorded, and has a queue of its own."""
    store, children = refold.open(place, durability="enqueue"), Children()
    chat = store.chat("a")
    written: Written = []

    def work() -> Written:
        chat.flush()
        store.flush()
        assert chat.version == len(chat.items) + 1
        mine = write(store.chat(f"of-{os.getpid()}"), f"{os.getpid()}", 5)
        store.close()
        return mine

    for turn in range(5):
        written += write(chat, f"parent.{turn}", 200)
        children.start(work)
    store.flush()
    written += children.written()
    store.close()
    return written


def exclusively_of(store: refold.Store) -> Callable[[Callable[[], object]], object]:
    """Return what runs work while nobody commits; in memory nobody does so for long."""
    committer = getattr(store.log, "_committer", None)
    return (lambda work: work()) if committer is None else committer.exclusively


def while_threads_write(place: str) -> Written:
    """Whatever threads of the parent are at, nobody waits for ever, and nothing is lost or doubled."""
    sys.setswitchinterval(1e-5)
    store, children, written = refold.open(place), Children(), Written()
    chat, hasty = store.chat("a"), store.chat("b", durability="enqueue")
    works = (
        lambda: written.extend(write(chat, "one", 1)),
        lambda: written.extend(write(store.chat("a"), "two", 1)),
        lambda: written.extend(write(hasty, "three", 1)),
        hasty.flush,
        store.contexts,
    )

    def work() -> Written:
        mine = write(chat, f"{os.getpid()}", 2) + write(store.chat("c"), f"{os.getpid()}.c", 2)
        hasty.flush()
        assert len(hasty.items) == hasty.version - 1
        assert len(store.contexts()) == 3
        return mine

    with threads_at(*works):
        for _ in range(12):
            children.start(work)
        written_by_children = children.written()
    store.close()
    return written + written_by_children


def locks_are_held(place: str) -> Written:
    """
    A thread holds the locks of a context, of runs and of a queue that was flushed for ever; others commit and exclude
    each other all the time.
    """
    store, children = refold.open(place), Children()
    chat, hasty, exclusively = store.chat("a"), store.chat("b", durability="enqueue"), exclusively_of(store)
    written, is_held, stop = write(chat, "before", 3), threading.Event(), threading.Event()

    def hold() -> None:
        with chat._journal._lock, store._runs._lock, hasty._journal._outbox._lock:
            is_held.set()
            stop.wait()

    def go_on(number: int) -> Written:
        assert store.run("user", f"session-{number}").version == 1
        mine = write(chat, f"child.{number}", 2)
        if not number:
            mine += write(hasty, "queued", 2)
            hasty.flush()
        return mine

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    with threads_at(lambda: exclusively(lambda: threading.Event().wait(0.02))):
        for number in range(4):
            children.start(partial(go_on, number))
        written += children.written()
    stop.set()
    holder.join()
    written += write(chat, "after", 3)
    store.close()
    return written


def threads_fork(place: str) -> Written:
    """Several threads fork at the same time, each from between its own appends."""
    store, families, written = refold.open(place), [Children() for _ in range(3)], Written()

    def fork(number: int) -> None:
        chat = store.chat(f"of-{number}")
        for turn in range(4):
            written.extend(write(chat, f"{number}.{turn}", 2))
            families[number].start(partial(write, chat, f"{number}.{turn}.child", 2))

    threads = [threading.Thread(target=fork, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for children in families:
        written += children.written()
    store.close()
    return written


def in_a_fold(place: str) -> Written:
    """A fork while a projection folds, which is in the middle of an answer."""
    store, children = refold.open(place), Children()
    written = write(store.chat("a"), "before", 3)

    class Forking:
        name, version, row = "forking", 1, CatalogueRow

        def keys(self, event: object) -> list[str]:
            return ["all"]

        def evolve(self, key: str, row: object, event: object) -> None:
            children.start(lambda: write(store.chat("a"), f"child-{os.getpid()}", 2))

    store.add_projection(Forking())
    store.rows("forking")
    written += children.written() + write(store.chat("a"), "after", 2)
    store.close()
    return written


def subscribed(place: str) -> Written:
    """A fork while a thread of the parent reads the next page of a subscription, which holds its lock."""
    store, children = refold.open(place), Children()
    chat = store.chat("a")
    following = store.subscribe()
    written = write(chat, "before", 1)

    def follow() -> Written:
        written = write(chat, "child", 1)
        assert len([next(following) for _ in range(2)]) == 2
        return written

    with following._lock:
        children.start(follow)
    written += children.written()
    store.close()
    return written


def in_a_transaction(place: str) -> Written:
    """What was changed in the block is the parent's; what a child writes is its own, and the block not its to end."""
    store, children = refold.open(place), Children()
    chat = store.chat("a")
    with store.transaction():
        written = write(chat, "parent", 2)

        def work() -> Written:
            assert len(chat.items) == 0
            return write(store.chat("b"), "child", 2)

        children.start(work)
        written += children.written()
    try:
        with store.transaction():
            written += write(chat, "later", 1)
            child = os.fork()
    except DecisionRefusedError:
        os._exit(7)
    assert child, "a child ended a transaction of its parent's"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    store.close()
    return written


def multiprocessing_workers(place: str) -> Written:
    """Workers of `multiprocessing` queue events and end without a word."""
    store = refold.open(place, durability="enqueue")
    written = write(store.chat("a"), "parent", 5)
    store.flush()
    forking = multiprocessing.get_context("fork")

    def work(number: int) -> None:
        write(store.chat(f"worker-{number}"), f"{number}", 30)
        LEFT_OPEN.append(refold.open(place, durability="enqueue"))
        write(LEFT_OPEN[0].chat(f"own-{number}"), f"own.{number}", 30)

    workers = [forking.Process(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 3
    store.close()
    return written + [f"{own}{number}.{count}" for own in ("", "own.") for number in range(3) for count in range(30)]


def preforked_workers(place: str) -> Written:
    """As a server with workers does it: the master opens the store, answers from it, and forks; some are replaced."""
    store = refold.open(place)
    written = write(store.chat("master"), "master", 2)
    with store.start_projections():
        subscription = store.subscribe(kinds=["chat"])
        next(subscription)
        for generation in range(3):
            children = Children()

            def serve(generation: int = generation) -> Written:
                name = f"{generation}.{os.getpid()}"
                mine = write(store.chat("shared"), name, 5) + write(store.chat(name), f"own.{name}", 5)
                with store.start_projections(["catalogue"]):
                    assert {one.id for one in store.contexts()} >= {"master", "shared", name}
                assert next(subscription).stream == "chat:master"
                store.close()
                return mine

            for _ in range(3):
                children.start(serve)
            written += children.written() + write(store.chat("shared"), f"master.{generation}", 2)
    store.close()
    return written


def refusal_of(use: Callable[[], object]) -> str:
    """Return why a store cannot be used, and nothing if it can: without pytest, which takes long to load."""
    try:
        use()
    except StorageUnavailableError as error:
        return str(error)
    return ""


def read_for_too_long(place: str) -> Written:
    """Where another thread has the file in use for longer than a fork waits, a child must not use it, and says so."""
    locks.PAUSE_SECONDS_MAX = 0.1
    store, children = refold.open(place), Children()
    written = write(store.chat("a"), "before", 3)
    is_reading, stop = threading.Event(), threading.Event()

    def read() -> None:
        with store.log.database.reading():  # type: ignore[attr-defined]
            is_reading.set()
            stop.wait()

    reader = threading.Thread(target=read)
    reader.start()
    is_reading.wait()

    def work() -> Written:
        for use in (lambda: store.chat("a").items, lambda: write(store.chat("a"), "x", 1), lambda: refold.open(place)):
            assert "when this process was forked" in refusal_of(use)
        return []

    children.start(work, leave=sys.exit)
    stop.set()
    reader.join()
    written += children.written() + write(store.chat("a"), "after", 3)
    store.close()
    return written


if __name__ == "__main__":
    acknowledged = globals()[sys.argv[1]](sys.argv[2])
    print(json.dumps(sorted(acknowledged)))
