"""What our recorders promise beyond the shipped cases: no holes, one sequence per application, all or nothing."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from eventsourcing.persistence import (
    DataError,
    IntegrityError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    StoredEvent,
    Tracking,
)

from refold.domain.ids import VERSION_MAX
from refold.infrastructure.log.records import Request
from refold.infrastructure.recorders import datastore, stored_events
from refold.infrastructure.recorders.datastore import Job
from refold.infrastructure.recorders.stored_events import NAME_LENGTH_MAX, safe_name
from tests.eventsourcing.opening import NewFactory, event, events

LONG = "L" * 300
# A process that hangs is ended after them.
SECONDS_MAX = 20


@pytest.mark.parametrize("first", [0, 1])
def test_a_stream_starts_at_0_or_1(factory: NewFactory, first: int) -> None:
    """Both are in use among applications."""
    recorder = factory().application_recorder()

    assert recorder.insert_events(events("a", first, first + 1)) == [1, 2]


@pytest.mark.parametrize("versions", [(2,), (-1,), (1, 3), (1, 2, 2), (0, 2)])
def test_no_hole_is_recorded(factory: NewFactory, versions: tuple[int, ...]) -> None:
    """Neither at the start of a stream nor within a batch."""
    recorder = factory().application_recorder()

    with pytest.raises(IntegrityError):
        recorder.insert_events(events("a", *versions))

    assert recorder.max_notification_id() is None


@pytest.mark.parametrize(
    "wrong",
    [
        StoredEvent("a", "1", "shop:Sold", b"{}"),  # type: ignore[arg-type]  # as a caller without types may
        StoredEvent("a", VERSION_MAX + 1, "shop:Sold", b"{}"),
        StoredEvent("a", 1, b"shop:Sold", b"{}"),  # type: ignore[arg-type]
        StoredEvent("a", 1, "shop:Sold", "{}"),  # type: ignore[arg-type]
    ],
    ids=["a text as version", "a version too high", "bytes as topic", "a text as state"],
)
def test_events_that_no_recorder_takes(factory: NewFactory, wrong: StoredEvent) -> None:
    """They are refused as such, with the whole batch."""
    recorder = factory().application_recorder()

    with pytest.raises(DataError):
        recorder.insert_events([event("b", 1), wrong])

    assert recorder.max_notification_id() is None


def test_a_state_that_is_too_large(factory: NewFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with its size, and nothing of its batch is recorded; one of the largest size is taken."""
    monkeypatch.setattr(stored_events, "PAYLOAD_BYTES_MAX", 1_000)
    recorder = factory().application_recorder()

    with pytest.raises(DataError, match=r"a state of 1,001 bytes is over PAYLOAD_BYTES_MAX \(1,000\)"):
        recorder.insert_events([event("a", 1), event("a", 2, state=b"x" * 1_001)])

    assert recorder.insert_events([event("a", 1, state=b"x" * 1_000)]) == [1]


def test_the_highest_version_is_one(factory: NewFactory) -> None:
    """It is refused for the hole before it, and not for its number."""
    with pytest.raises(IntegrityError):
        factory().application_recorder().insert_events([event("a", VERSION_MAX)])


def test_no_hole_behind_what_is_recorded(factory: NewFactory) -> None:
    """A version must follow the stream's last one, whoever recorded that."""
    factory().application_recorder().insert_events(events("a", 1, 2))
    recorder = factory().aggregate_recorder()

    with pytest.raises(IntegrityError, match=r"version 4 of .*a does not follow its last, 2"):
        recorder.insert_events(events("a", 4))

    assert recorder.select_events("a") == events("a", 1, 2)


def test_originators_may_take_turns_in_a_batch(factory: NewFactory) -> None:
    """Notification ids follow the order of the list."""
    recorder = factory().application_recorder()
    batch = [event("a", 1), event("b", 0), event("a", 2), event("b", 1), event("a", 3)]

    assert recorder.insert_events(batch) == [1, 2, 3, 4, 5]

    recorded = [(n.id, n.originator_id, n.originator_version) for n in recorder.select_notifications(1, 10)]
    assert recorded == [(1, "a", 1), (2, "b", 0), (3, "a", 2), (4, "b", 1), (5, "a", 3)]


def test_a_batch_is_all_or_nothing(factory: NewFactory) -> None:
    """What stood before the hole is not recorded either, and leaves no gap in the ids."""
    recorder = factory().application_recorder()

    with pytest.raises(IntegrityError):
        recorder.insert_events([*events("a", 1, 2), *events("b", 1, 3)])

    assert recorder.insert_events(events("c", 1)) == [1]


def test_text_ids_may_be_any_text(factory: NewFactory) -> None:
    """They need not look like Refold's own."""
    recorder = factory().application_recorder()
    odd = "kunde/ä..b@3 \x01'\""

    recorder.insert_events(events(odd, 1))

    assert recorder.select_events(odd) == events(odd, 1)


def test_uuids_are_asked_for_where_they_are_kept(factory: NewFactory) -> None:
    """An id that could not be read back is refused."""
    recorder = factory(ORIGINATOR_ID_TYPE="uuid").application_recorder()

    with pytest.raises(DataError, match="ORIGINATOR_ID_TYPE"):
        recorder.insert_events(events("no uuid", 1))


def test_large_states_come_back_as_they_were(factory: NewFactory) -> None:
    """Whether they could be compressed or not."""
    recorder = factory().application_recorder()
    large = [event("a", 1, state=bytes(range(256)) * 4000), event("a", 2, state=b"")]

    recorder.insert_events(large)

    assert recorder.select_events("a") == large


def test_snapshots_may_have_any_version(factory: NewFactory) -> None:
    """A snapshot is made now and then; only the same one twice is refused."""
    recorder = factory().aggregate_recorder("snapshots")
    recorder.insert_events(events("a", 7, 3))

    with pytest.raises(IntegrityError):
        recorder.insert_events(events("a", 9, 3))

    assert recorder.select_events("a", desc=True) == events("a", 7, 3)


@pytest.mark.parametrize(
    "names",
    [("Shop", "Bank"), ("", "Shop"), ("my shop", "my_shop"), (LONG, f"{LONG}2"), ("größe", "gröse"), ("1a", "a")],
)
def test_applications_have_sequences_of_their_own(factory: NewFactory, names: tuple[str, str]) -> None:
    """Two in one database share neither events nor ids, snapshots or tracking."""
    first, second = (factory(name) for name in names)
    for one in (first, second):
        assert one.process_recorder().insert_events(events("a", 1, 2), tracking=Tracking("up", 5)) == [1, 2]
        one.aggregate_recorder("snapshots").insert_events(events("a", 1))

    first.application_recorder().insert_events(events("a", 3))

    assert second.application_recorder().max_notification_id() == 2
    assert second.application_recorder().select_events("a") == events("a", 1, 2)


def test_an_application_finds_its_events_again(factory: NewFactory) -> None:
    """Under its name, however that is written in upper and lower case, as variables are."""
    factory("Shop").application_recorder().insert_events(events("a", 1))

    assert factory("SHOP").application_recorder().select_events("a") == events("a", 1)


def test_refused_tracking_undoes_the_events(factory: NewFactory) -> None:
    """Events and position are recorded together, or not."""
    recorder = factory().process_recorder()
    recorder.insert_events(events("a", 1), tracking=Tracking("up", 2))

    with pytest.raises(IntegrityError):
        recorder.insert_events(events("a", 2), tracking=Tracking("up", 2))

    assert recorder.insert_events(events("b", 1), tracking=Tracking("up", 3)) == [2]
    assert recorder.select_events("a") == events("a", 1)


def test_one_refused_writer_does_not_harm_the_others(factory: NewFactory) -> None:
    """Even where all of them are committed as one group."""
    opened = factory()
    recorder = opened.process_recorder()
    recorder.insert_events(events("a", 1), tracking=Tracking("up", 7))
    committer = opened.datastore._open_engine().committer
    orders: list[tuple[str, int, Tracking | None]] = [
        *((f"s{n}", 1, None) for n in range(3)),
        ("refused by tracking", 1, Tracking("up", 7)),
        ("refused by version", 5, None),
        *((f"t{n}", 1, Tracking(f"up{n}", 1)) for n in range(3)),
    ]
    with ThreadPoolExecutor(len(orders)) as threads:
        waiting: list[Future[list[int]]] = []

        def queue_up() -> None:
            for name, version, tracking in orders:
                waiting.append(threads.submit(recorder.insert_events, events(name, version), tracking=tracking))
            while len(committer._queue) < len(orders):
                time.sleep(0.001)

        committer.exclusively(queue_up)
        failures = [type(future.exception()) for future in waiting if future.exception()]

    assert failures == [IntegrityError, IntegrityError]
    recorded = [n.originator_id for n in recorder.select_notifications(None, 100)]
    assert sorted(recorded) == ["a", "s0", "s1", "s2", "t0", "t1", "t2"]
    assert [recorder.max_tracking_id(f"up{n}") for n in range(3)] == [1, 1, 1]


def test_only_a_process_recorder_tracks(factory: NewFactory) -> None:
    """A position given to another one would be lost, so it is refused."""
    with pytest.raises(NotSupportedError):
        factory().application_recorder().insert_events(events("a", 1), tracking=Tracking("up", 1))


def test_a_transaction_is_rolled_back_on_any_error(factory: NewFactory) -> None:
    """Of a view's rows and its position nothing is left."""
    opened = factory()
    recorder = opened.tracking_recorder()

    def fail() -> None:
        with opened.datastore.transaction(commit=True) as cursor:
            recorder._insert_tracking(cursor, Tracking("up", 1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert recorder.max_tracking_id("up") is None


def test_a_transaction_within_a_transaction_is_refused(factory: NewFactory) -> None:
    """It would wait for itself."""
    opened = factory()
    recorder = opened.application_recorder()

    with opened.datastore.transaction(commit=True), pytest.raises(ProgrammingError):
        recorder.insert_events(events("a", 1))

    assert recorder.insert_events(events("a", 1)) == [1]


def test_errors_of_sql_have_the_names_of_the_package(factory: NewFactory) -> None:
    """A user's own statements may fail, too."""
    opened = factory()

    with pytest.raises((OperationalError, ProgrammingError)), opened.datastore.transaction(commit=True) as cursor:
        cursor.execute("SELECT nothing FROM nowhere")


def test_without_tables_nothing_is_made(factory: NewFactory) -> None:
    """CREATE_TABLE says no, and what is missing is missed at the first use."""
    recorder = factory(CREATE_TABLE="no").application_recorder()

    with pytest.raises((OperationalError, ProgrammingError)):
        recorder.insert_events(events("a", 1))


@pytest.mark.parametrize(
    "changes",
    [{"ORIGINATOR_ID_TYPE": "int"}, {"SINGLE_ROW_TRACKING": "n"}, {"TRACKING_RECORDER_TOPIC": "builtins:int"}],
)
def test_variables_that_cannot_be_followed_are_named(factory: NewFactory, changes: dict[str, str]) -> None:
    """Rather than passed over."""
    with pytest.raises(OSError, match=next(iter(changes))):
        factory(**changes).tracking_recorder()


def test_many_writers_make_one_sequence(factory: NewFactory) -> None:
    """Of two factories, as two processes would have them, each with threads."""
    recorders: list[Any] = [factory().application_recorder() for _ in range(2)]

    def write(number: int) -> list[int]:
        return list(recorders[number % 2].insert_events(events(f"s{number}", 0, 1, 2)))

    with ThreadPoolExecutor(8) as threads:
        ids = [found for batch in threads.map(write, range(60)) for found in batch]

    assert sorted(ids) == list(range(1, 181))
    assert [n.id for n in recorders[0].select_notifications(None, 1000)] == list(range(1, 181))


def test_one_of_two_rivals_wins(factory: NewFactory) -> None:
    """Of writers of the same version all but one are told."""
    recorders: list[Any] = [factory().application_recorder() for _ in range(2)]
    start = threading.Barrier(8)

    def write(number: int) -> bool:
        start.wait()
        try:
            recorders[number % 2].insert_events(events("a", 1))
        except IntegrityError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(write, range(8)))

    assert won.count(True) == 1
    assert recorders[0].max_notification_id() == 1


def test_a_closed_factory_says_so(factory: NewFactory) -> None:
    """Its recorders do nothing more."""
    opened = factory()
    recorder = opened.application_recorder()
    opened.close()

    with pytest.raises(InterfaceError, match="closed"):
        recorder.insert_events(events("a", 1))
    with pytest.raises(InterfaceError, match="closed"):
        recorder.select_events("a")


def test_a_thread_may_read_while_it_reads(factory: NewFactory) -> None:
    """And while it writes; it cannot write while it writes, which would wait for itself."""
    shop = factory()
    recorder = shop.application_recorder()
    recorder.insert_events(events("a", 1))

    with shop.datastore.transaction(commit=False):
        assert recorder.select_events("a") == events("a", 1)
    with shop.datastore.transaction(commit=True), pytest.raises(ProgrammingError):
        recorder.insert_events(events("a", 2))
    assert recorder.insert_events(events("a", 2)) == [2]


@pytest.mark.parametrize("tracking", [Tracking("\ud800", 1), Tracking("up", 1 << 63)])
def test_a_position_that_no_database_stores_is_refused_alone(factory: NewFactory, tracking: Tracking) -> None:
    """It is the caller's mistake, and not one of those whose events are committed with it."""
    recorder = factory().process_recorder()

    with pytest.raises(DataError):
        recorder.insert_events(events("a", 1), tracking=tracking)

    assert recorder.insert_events(events("a", 1), tracking=Tracking("up", 1)) == [1]
    assert recorder.insert_events(events("a", 2), tracking=Tracking("up", (1 << 63) - 1)) == [2]


@pytest.mark.parametrize("text", ["shop", "S" * 500, "a  shop", "a__b", ""])
def test_names_of_tables_are_short(text: str) -> None:
    """Whatever an application is called: a database cuts long names off, and two of them would be one."""
    assert 0 < len(safe_name(text)) <= NAME_LENGTH_MAX
    assert "__" not in safe_name(text)


class Name(str):
    """A text of an application's own class."""


class Count(int):
    """A number of an application's own class."""


@pytest.mark.parametrize(
    "given",
    [
        StoredEvent("a", True, "shop:Sold", b"{}"),
        StoredEvent("a", Count(1), "shop:Sold", b"{}"),
        StoredEvent(Name("a"), 1, Name("shop:Sold"), bytearray(b"{}")),  # type: ignore[arg-type]
    ],
    ids=["True", "another number", "other texts"],
)
def test_values_of_other_types_are_recorded_as_what_they_equal(factory: NewFactory, given: StoredEvent) -> None:
    """And read again: the digest is that of the values that are stored."""
    opened = factory()
    recorder, snapshots = opened.application_recorder(), opened.aggregate_recorder("snapshots")

    assert recorder.insert_events([given]) == [1]
    snapshots.insert_events([given])

    assert recorder.select_events("a") == snapshots.select_events(Name("a")) == [event("a", 1)]
    assert [one.originator_version for one in recorder.select_notifications(1, 9)] == [1]


@pytest.mark.parametrize("far", [2**31, 2**63 - 1, 2**63, 2**70])
def test_bounds_beyond_all_numbers(factory: NewFactory, far: int) -> None:
    """They bound nothing, or leave nothing; where no more than none is asked for there is none."""
    opened = factory()
    recorder, snapshots = opened.process_recorder(), opened.aggregate_recorder("snapshots")
    snapshots.insert_events(events("a", 1))
    recorder.insert_events(events("a", 1, 2))

    for kept, count in ((recorder, 2), (snapshots, 1)):
        found = [kept.select_events("a", **{bound: far}) for bound in ("gt", "lte", "limit")]
        assert [*map(len, found)] == [0, count, count]
        assert [len(kept.select_events("a", **{bound: -far})) for bound in ("gt", "lte", "limit")] == [count, 0, 0]
    positions = [(far, 9, None), (-far, 9, None), (1, 9, far), (1, 9, -far), (1, far, None), (1, -far, None)]
    assert [len(recorder.select_notifications(*one)) for one in positions] == [0, 2, 2, 0, 2, 0]
    assert recorder.select_page(after=far, limit=far, topics=()).notifications == []


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 3000])
def test_names_that_cannot_be_stored_are_refused(factory: NewFactory, name: str) -> None:
    """The same on both databases, and neither is called damaged."""
    recorder = factory().process_recorder()
    uses: list[Callable[[], object]] = [
        lambda: recorder.insert_tracking(Tracking(name, 1)),
        lambda: recorder.insert_events(events("a", 1), tracking=Tracking(name, 1)),
        lambda: recorder.insert_tracking(Tracking("up", 2**63)),
        lambda: recorder.max_tracking_id(name),
        lambda: recorder.select_notifications(1, 9, topics=[name]),
        lambda: recorder.select_page(after=0, limit=9, topics=[name]),
    ]
    for use in uses:
        with pytest.raises(DataError, match=r"^(?!.*damaged)"):
            use()

    assert recorder.insert_events(events("a", 1)) == [1]


def test_a_forked_process_has_its_own_connections(factory: NewFactory) -> None:
    """For positions and snapshots, too: an answer to the one never reaches the other."""
    opened = factory()
    recorder, snapshots = opened.process_recorder(), opened.aggregate_recorder("snapshots")
    snapshots.insert_events(events("a", 0))

    def track(name: str) -> None:
        for position in range(1, 100):
            recorder.insert_tracking(Tracking(name, position))
        snapshots.insert_events(events(name, 1))

    child = os.fork()
    if not child:
        signal.alarm(SECONDS_MAX)
        try:
            track("child")
        finally:
            os._exit(int(sys.exc_info()[0] is not None))
    try:
        track("parent")
    finally:
        _, status = os.waitpid(child, 0)

    assert status == 0
    assert [recorder.max_tracking_id(name) for name in ("child", "parent")] == [99, 99]
    assert [len(snapshots.select_events(name)) for name in ("child", "parent")] == [1, 1]


def test_requests_that_share_a_transaction() -> None:
    """Consecutive ones of one application; one that does something else as well has a transaction of its own."""
    some, others = object(), object()
    wanted = [(some, None), (some, None), (others, None), (others, print), (others, None), (some, None)]
    jobs: list[Job[Any]] = [Job(appender, Request((), also)) for appender, also in wanted]

    runs = [[[*map(id, jobs)].index(id(job)) for job in run] for run in datastore._runs(jobs)]

    assert runs == [[0, 1], [2], [3], [4], [5]]
