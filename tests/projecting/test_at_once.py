"""Six threads at once on what is kept in memory: the log, rows of projections, and mappings that share a dict."""

import random
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from refold.domain import ordered_map
from refold.domain.log import memory_log
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import ANY_VERSION
from refold.domain.ordered_map import OrderedMap
from refold.domain.positions import Moment, Position
from refold.infrastructure.projecting import store as rows_in_memory
from refold.infrastructure.projecting.store import Checkpoint, MemoryProjectionStore, SetAside
from tests.contract.writing import append, at_once, check_chain, check_order, everything, said

from .counts import Count, Counts, save

THREADS = 6
FILES = {module.__file__ for module in (memory_log, ordered_map, rows_in_memory)}
KEYS = 12
SOME = (0, 3, 7)


@pytest.fixture(autouse=True)
def hurry() -> Iterator[None]:
    """Let threads take turns as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(*works: Callable[[random.Random], None]) -> None:
    """Run each work in a thread of its own; every line of the modules may be the last before another thread's turn."""

    def interrupted(number: int, work: Callable[[random.Random], None]) -> None:
        chance = random.Random(number)

        def in_frame(_frame: FrameType, event: str, _: object) -> Any:
            if event == "line" and chance.random() < 0.3:
                time.sleep(0)
            return in_frame

        sys.settrace(lambda frame, _event, _arg: in_frame if frame.f_code.co_filename in FILES else None)
        try:
            work(chance)
        finally:
            sys.settrace(None)

    raised = at_once(*(lambda one=one: interrupted(*one) for one in enumerate(works)))
    assert raised == []


def at(number: int) -> Moment:
    """Return a moment of a log in memory."""
    return Moment.of({-1: number})


def test_the_log() -> None:
    """Every event has a position of its own, and stands once in its stream, whoever looks meanwhile."""
    log = MemoryLog()
    length = 25

    def write(_: random.Random) -> None:
        for number in range(length):
            append(log, "chat:a", said(number), expected=ANY_VERSION)

    def look(_: random.Random) -> None:
        for _time in range(6 * length):
            end, events = log.end("chat:a"), log.read("chat:a")
            assert [one.version for one in events] == list(range(1, len(events) + 1))
            assert end.version <= len(events)

    in_threads(write, write, write, look, look, look)

    events = everything(log)
    check_order(events)
    check_chain(log.read("chat:a"))
    assert [one.position for one in events] == [Position(-1, number + 1) for number in range(3 * length)]


def test_repetitions_in_the_log() -> None:
    """What is done six times under one key is done once."""
    log = MemoryLog()

    def write(_: random.Random) -> None:
        for number in range(20):
            append(log, "chat:a", said(number), expected=ANY_VERSION, key=f"k{number}")

    in_threads(*[write] * THREADS)

    assert [one.meta.idempotency_key for one in everything(log)] == [f"k{number}" for number in range(20)]


LOOKS: dict[str, Callable[[OrderedMap[int, int], dict[int, int]], bool]] = {
    "get": lambda mapping, plain: [mapping.get(key) for key in SOME] == [plain.get(key) for key in SOME],
    "first": lambda mapping, plain: mapping.first(3) == list(plain.items())[:3],
    "values": lambda mapping, plain: mapping.values() == list(plain.values()),
    "iterated": lambda mapping, plain: list(mapping) == list(plain),
    "contained": lambda mapping, plain: [key in mapping for key in SOME] == [key in plain for key in SOME],
}


def changed(
    mapping: OrderedMap[int, int], key: int, plain: dict[int, int]
) -> tuple[OrderedMap[int, int], dict[int, int]]:
    """Return a version with a change, and what it is as a dict."""
    if key in plain:
        return mapping.minus(key), {one: value for one, value in plain.items() if one != key}
    return mapping.plus(key, key), {**plain, key: key}


@pytest.mark.parametrize("look", [*LOOKS, "changed"])
def test_versions_of_a_mapping(look: str) -> None:
    """Each of them stays what it was, while others are looked at in every way, and made."""
    plain: dict[int, int] = {}
    versions = [(OrderedMap[int, int](), plain)]
    for number in (*range(KEYS), 3, 7):
        mapping, plain = changed(versions[-1][0], number, plain)
        versions.append((mapping, plain))

    def work(way: str) -> Callable[[random.Random], None]:
        def run(chance: random.Random) -> None:
            for _ in range(30):
                mapping, plain = chance.choice(versions[1:])
                if way == "changed":
                    mapping, plain = changed(mapping, chance.randrange(KEYS), plain)
                    assert mapping.items() == list(plain.items())
                else:
                    assert LOOKS[way](mapping, plain), way

        return run

    in_threads(*[work(look)] * 3, *[work("values")] * 3)


def saving(store: MemoryProjectionStore, won: list[int]) -> Callable[[random.Random], None]:
    """Return what stores the next page of two rows that are always equal, as often as it is the first to do so."""

    def run(_: random.Random) -> None:
        for _time in range(40):
            (before,) = store.checkpoints(Counts())
            number = before.moment.head(-1) + 1
            rows = {key: Count(key, number) for key in ("a", "b", f"c{number}")}
            aside = [SetAside(f"chat:a@{number}", "why")]
            if save(store, rows, before, at(number), aside):
                won.append(number)

    return run


def test_rows() -> None:
    """A page is stored once, and no answer has half of it."""
    store, won = MemoryProjectionStore(), list[int]()

    def look(_: random.Random) -> None:
        for _time in range(40):
            answers = [
                list(store.load(Counts(), ("a", "b")).values()),
                store.rows_under(Counts(), "a", "b"),
                store.page(Counts(), after="", limit=2),
                store.rows(Counts())[:2],
            ]
            assert all(len({row.events for row in rows}) <= 1 for rows in answers)
            heads = [store.checkpoint(Counts()).head(-1) for _again in range(10)]
            counts = [store.count(Counts()) for _again in range(10)]
            aside = [len(store.set_aside(Counts())) for _again in range(10)]
            assert (heads, counts, aside) == (sorted(heads), sorted(counts), sorted(aside))
            moment, rows = store.walk(Counts(), lambda moment, pages: (moment, [row for page in pages for row in page]))
            assert [events for _, events in rows[:1]] == [moment.head(-1)][: len(rows)]

    in_threads(*[saving(store, won)] * 3, *[look] * 3)

    assert won == list(range(1, len(won) + 1))
    assert store.count(Counts()) == len(won) + 2


def test_rows_that_are_dropped() -> None:
    """What is stored behind that begins anew: no page of before comes back."""

    def once() -> None:
        store = MemoryProjectionStore()
        first = save(store, {"a": Count("a", 1)}, Checkpoint(), at(1))
        assert first is not None

        def save_again(_: random.Random) -> None:
            save(store, {"a": Count("a", 2)}, first, at(2))

        in_threads(save_again, lambda _: store.drop(Counts()))
        assert store.rows(Counts()) == []

    for _ in range(30):
        once()


def test_notes() -> None:
    """Of six who change what they saw one does."""
    store, won = MemoryProjectionStore(), list[str]()

    def note(_: random.Random) -> None:
        for _time in range(40):
            before = store.note("n")
            after = str(int(before or 0) + 1)
            if store.set_note("n", before=before, after=after):
                won.append(after)
            assert list(store.notes("n")) in ([], ["n"])

    in_threads(*[note] * THREADS)

    assert sorted(won, key=int) == [str(number + 1) for number in range(len(won))]


class Guarded(dict[str, Any]):
    """A dict that only those who hold a lock may use."""

    def __init__(self, lock: Any) -> None:
        super().__init__()
        self._lock = lock

    def __getattribute__(self, name: str) -> Any:
        if name != "_lock":
            assert self._lock._is_owned(), f"{name} without the lock"
        return super().__getattribute__(name)

    def __setitem__(self, key: str, value: Any) -> None:
        assert self._lock._is_owned(), "an entry is set without the lock"
        super().__setitem__(key, value)


class Shadow(Counts):
    """The same, made beside it."""

    name = "shadow"


class Part(Counts):
    """A part of it."""

    name = "part"


USES: list[Callable[[MemoryProjectionStore], object]] = [
    lambda store: store.checkpoint(Counts()),
    lambda store: store.load(Counts(), ["a"]),
    lambda store: save(store, {}, Checkpoint(), at(1)),
    lambda store: store.set_aside(Counts()),
    lambda store: store.rows(Counts()),
    lambda store: store.walk(Counts(), lambda moment, rows: [*rows]),
    lambda store: store.rows_under(Counts(), "a"),
    lambda store: store.page(Counts(), after="", limit=1),
    lambda store: store.count(Counts()),
    lambda store: store.gather(Shadow(), [Part()], moment=at(1), plan=("plan", None)),
    lambda store: store.replace(Counts(), Shadow(), before=at(1)),
    lambda store: store.drop(Counts()),
]


def test_tables_are_used_under_the_lock() -> None:
    """Also where only a rare turn of threads would show that it is not."""
    store = MemoryProjectionStore()
    store._tables = Guarded(store._lock)

    for use in USES:
        use(store)
