"""An exception before every line that a call runs: the store goes on, and what was acknowledged is kept."""

import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.infrastructure.log.evidence import SEGMENT
from refold.infrastructure.log.sqlite.log import SqliteLog
from tests.contract import writing
from tests.contract.writing import numbers, said
from tests.support.effort import IS_DEEP

from .injecting import InterruptedHereError, Point, in_another_thread, interrupted_at, path_of, points_of, visited
from .world import World

# A connection that an interrupted call had in hand is closed when its last reference goes: psycopg warns of it.
pytestmark = pytest.mark.filterwarnings("ignore:<psycopg.Connection.* was deleted while still open:ResourceWarning")

Call = Callable[[World], None]
POINTS_MIN = 600
SEALING_POINTS_MIN = 120
# The modules that only a batch goes through that is packed.
PACKING = {f"infrastructure/log/{name}.py" for name in ("block_body", "sqlite/seal")}
APPENDING = "infrastructure/log/sqlite/append.py"
# Rows of a stream that are packed with the batch behind them.
BEFORE = 3
CLOSING_POINTS_MIN = 30
TRANSACTION_POINTS_MIN = 60
ALWAYS = {
    "domain/context/journal.py",
    "domain/context/outbox.py",
    "domain/context/transaction.py",
    "domain/context/folded_stream.py",
} | {"infrastructure/projecting/runner.py"}
STEPS = {
    "memory": ALWAYS | {"domain/log/memory_log.py"},
    "sqlite": ALWAYS
    | {
        "infrastructure/log/group_commit.py",
        "infrastructure/log/database_log.py",
        "infrastructure/log/sqlite/append.py",
        "infrastructure/log/sqlite/log.py",
    },
    "postgres": ALWAYS
    | {
        "infrastructure/log/group_commit.py",
        "infrastructure/log/database_log.py",
        "infrastructure/log/postgres/append.py",
        "infrastructure/log/postgres/wire.py",
    },
}
# Lines that are the same on every store, since they only compute: memory has each of them, in CI the others need not.
COMPUTING = ("domain/chat/", "domain/spans", "domain/words", "domain/canonical", "projections/")
LARGE = "a large text, stored beside its event; " * 2_000


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: Any, tmp_path: Path) -> str:
    """Return where a store is opened."""
    if request.param == "postgres":
        return str(request.getfixturevalue("ready_pg_url"))
    return ":memory:" if request.param == "memory" else str(tmp_path / "log.db")


@pytest.fixture
def world(place: str) -> Iterator[World]:
    """A world whose store is warm."""
    world = World(place)
    yield world
    world.close()
    # What is to be warned of is warned of here.
    gc.collect()


def append(world: World) -> None:
    """Add one small message."""
    world.say()


def keyed(world: World) -> None:
    """Add one under an idempotency key."""
    world.say(idempotency_key=f"key {world.next_id()}")


def large(world: World) -> None:
    """Add one whose text is stored beside it."""
    world.say(LARGE + world.next_id())


def many(world: World) -> None:
    """Add several at once, more than go into one statement."""
    numbers = [world.next_id() for _ in range(20)]
    world.chat.add_items(
        [refold.ChatMessage(id=number, role=refold.ChatRole.USER, content=["x"]) for number in numbers]
    )
    world.acknowledged.extend(numbers)


def first(world: World) -> None:
    """Open a chat and add its first message."""
    world.say(chat=world.store.chat(f"new {world.next_id()}", session="s"))


def overtaken(world: World) -> None:
    """Add a message behind another writer's."""
    world.stranger.chat(world.chat.id).add_message("user", "first!", message_id=world.next_id())
    world.say()


def edit(world: World) -> None:
    """Evict the oldest item, restore it, and truncate."""
    world.chat.refresh()
    oldest = world.chat.items[0].id
    world.chat.evict(oldest)
    world.chat.restore(oldest)
    world.chat.truncate(max_items=4)


def transaction(world: World) -> None:
    """Add to two chats as one."""
    numbers = [world.next_id(), world.next_id()]
    with world.store.transaction():
        for chat, number in zip((world.chat, world.other), numbers, strict=True):
            chat.add_message("user", "together", message_id=number)
    world.acknowledged.extend(numbers)


def broken_off(world: World) -> None:
    """Give a transaction up."""
    with suppress(ZeroDivisionError), world.store.transaction():
        world.chat.add_message("user", "never", message_id=world.next_id())
        raise ZeroDivisionError


def enqueue(world: World) -> None:
    """Queue some, then flush."""
    numbers = [world.next_id() for _ in range(3)]
    chat = world.store.chat(f"queued {numbers[0]}", session="s", durability="enqueue")
    for number in numbers:
        chat.add_message("user", "queued", message_id=number)
    world.store.flush()
    world.acknowledged.extend(numbers)


def project(world: World) -> None:
    """Bring projections up to date."""
    world.say()
    listed = {context.id: context.version for context in world.store.contexts()}
    assert listed[world.chat.id] >= world.chat.version
    assert world.store.search("hello")


# Projections early: they list all contexts, and the calls behind them open hundreds.
CALLS: tuple[Call, ...] = (
    append, project, keyed, large, many, first, overtaken, edit, transaction, broken_off, enqueue
)  # fmt: skip
# On a database CI takes each line of the modules that a commit goes through, and one in so many of the others.
SHARE = 6


def is_wanted(world: World, point: Point, share: int) -> bool:
    """
    Return whether a call is interrupted here.

    Where the tests may take long: before each line that it runs, the first time and the last.
    """
    if IS_DEEP or point.time > 1:
        return IS_DEEP
    path = path_of(point.path)
    if world.kind == "memory" or path in STEPS[world.kind]:
        return True
    return point.line % SHARE == share and not path.startswith(COMPUTING)


@pytest.mark.timeout(3_600)
def test_an_interrupt_at_every_line(world: World) -> None:
    """Nothing acknowledged is lost or doubled, and everybody can go on, whichever line it comes before."""
    seen: set[tuple[str, int]] = set()
    visits: Counter[str] = Counter()
    share = random.randrange(SHARE)
    for call in CALLS:
        points = points_of(lambda call=call: call(world))  # type: ignore[misc]
        wanted = [one for one in points if is_wanted(world, one, share) and (IS_DEEP or one[:2] not in seen)]
        reached = list(visited(wanted, lambda call=call: call(world), world.check, InterruptedHereError))  # type: ignore[misc]
        seen.update(point[:2] for point in reached)
        visits[call.__name__] += len(reached)
    world.check_log()

    print(f"\n{world.place}: an interrupt at {sum(visits.values())} points, share {share}: {dict(visits)}")
    assert {path_of(path) for path, _ in seen} >= STEPS[world.kind]
    assert sum(visits.values()) >= POINTS_MIN


def test_an_interrupt_within_a_keyed_transaction(world: World) -> None:
    """Whoever goes on within the block records a transaction that can be repeated: its key stands for what it holds."""

    def change(store: refold.Store, key: str, calls: list[Callable[[refold.ChatContext], object]]) -> None:
        with store.transaction(idempotency_key=key):
            chat = store.chat("a")
            for call in calls:
                call(chat)

    def adding(number: str) -> Callable[[refold.ChatContext], object]:
        return lambda chat: chat.add_message("user", "in one", message_id=number)

    points: list[Point] = []
    first = adding(world.next_id())
    change(world.store, "points", [lambda chat: points.extend(points_of(lambda: first(chat)))])
    reached = 0
    own = {"domain/context/journal.py", "domain/context/transaction.py"}
    for point in (one for one in points if (IS_DEEP or one.time == 1) and path_of(one.path) in own):
        key, numbers = f"key {world.next_id()}", [world.next_id(), world.next_id()]
        one, other = map(adding, numbers)
        outcome: list[bool] = []
        interrupt = lambda chat, point=point, one=one, outcome=outcome: outcome.append(  # noqa: E731
            interrupted_at(point, lambda: one(chat), InterruptedHereError)
        )
        change(world.store, key, [interrupt, other])
        reached += sum(outcome)
        head = world.stranger.log.head("chat:a")
        kept = [item.id for item in world.stranger.chat("a").items if item.id in numbers]
        assert numbers[1] in kept

        change(world.stranger, key, [adding(number) for number in kept])
        assert world.stranger.log.head("chat:a") == head, f"recorded twice behind {point}"

    assert reached >= TRANSACTION_POINTS_MIN


def test_an_interrupt_while_sealing(tmp_path: Path) -> None:
    """Rows and blocks say the same as before, and sealing goes on."""
    world = World(str(tmp_path / "log.db"))
    log = world.store.log
    assert isinstance(log, SqliteLog)

    def fill() -> None:
        """Make a segment complete, of which several slices can be sealed: a batch of more events is packed at once."""
        for _ in range(2):
            world.chat.add_items([refold.ChatMessage(role=refold.ChatRole.USER, content=["x"]) for _ in range(512)])

    fill()
    points = [point for point in points_of(log._seal_block) if IS_DEEP or point.time == 1]
    number = 0
    for number, _ in enumerate(visited(points, log._seal_block, world.check, InterruptedHereError), start=1):
        if number % 8 == 0:
            fill()

    assert number >= SEALING_POINTS_MIN
    world.close()


def test_an_interrupt_while_a_batch_is_packed(tmp_path: Path) -> None:
    """Its stream has all of it or nothing, for others, too, and whoever goes on appends behind that."""
    log, stranger = SqliteLog(tmp_path / "log.db"), SqliteLog(tmp_path / "log.db")
    events = [*map(said, range(BEFORE + SEGMENT + 2))]
    names = map("chat:a {}".format, count())

    def begun() -> str:
        """Begin a stream; where nobody came between them, the third append and the batch behind it are cached ones."""
        stream = next(names)
        for version, event in enumerate(events[:BEFORE]):
            writing.append(log, stream, event, expected=version)
        return stream

    def pack(into: SqliteLog, stream: str, key: str | None) -> None:
        writing.append(into, stream, *events[BEFORE:-1], expected=BEFORE, key=key)

    def check(stream: str, key: str | None) -> None:
        if key is not None:
            # It is recorded now, whether or not it was.
            pack(stranger, stream, key)
        (end,) = {one.end(stream).version or 0 for one in (log, stranger)}
        assert end in (BEFORE, len(events) - 1)
        writing.append(stranger, stream, events[end], expected=end)
        assert numbers(log.read(stream)) == [f"m{number}" for number in range(end + 1)]

    share = random.randrange(SHARE)
    seen: set[tuple[str, int]] = set()
    # By the cached append, and by the locked one.
    for key in (None, "k"):
        pack(log, begun(), key)
        for point in points_of(partial(pack, log, begun(), key)):
            path = path_of(point.path)
            is_wanted_here = path in PACKING or (path == APPENDING and (IS_DEEP or point.line % SHARE == share))
            if is_wanted_here and (IS_DEEP or point[:2] not in seen):
                stream = begun()
                assert interrupted_at(point, partial(pack, log, stream, key), InterruptedHereError), point
                in_another_thread(partial(check, stream, key))
                seen.add(point[:2])

    print(f"\nan interrupt at {len(seen)} lines, share {share}")
    assert {path_of(path) for path, _ in seen} == PACKING | {APPENDING}
    assert stranger.doubtful_streams() == set()
    log.close()
    stranger.close()


def test_an_interrupt_while_closing(place: str) -> None:
    """To close again is enough; what was acknowledged, and what was queued, is there."""
    if place == ":memory:":
        pytest.skip("memory has nothing to close")

    def opened() -> World:
        world = World(place)
        world.say()
        world.say(chat=world.store.chat("queued", session="s", durability="enqueue"))
        return world

    world = opened()
    points = [point for point in points_of(world.store.close) if IS_DEEP or point.time == 1]
    world.stranger.close()
    for point in points:
        world = opened()
        interrupted_at(point, world.store.close, InterruptedHereError)
        in_another_thread(world.store.close)
        world.check_log()
        world.stranger.chat("stranger").add_message("user", "may I?")
        world.stranger.close()
    gc.collect()

    assert len(points) >= CLOSING_POINTS_MIN
