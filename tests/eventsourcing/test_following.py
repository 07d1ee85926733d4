"""Following an application: from the past into the present, across processes, and no thread is left."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import islice

import pytest
from eventsourcing.persistence import InterfaceError, OperationalError, ProgrammingError

from refold.infrastructure.recorders import recorders as following
from tests.eventsourcing.opening import NewFactory, event, events

WRITER = """
import sys, time
from eventsourcing.persistence import InfrastructureFactory, StoredEvent
from eventsourcing.utils import Environment

with InfrastructureFactory.construct(Environment("Shop", {variables!r})) as factory:
    recorder = factory.application_recorder()
    for version in range(1, {count} + 1):
        sys.stdin.readline()
        recorder.insert_events([StoredEvent("a", version, "shop:Sold", repr(time.time()).encode())])
    factory.close()
"""
CROWD = """
import sys
from eventsourcing.persistence import InfrastructureFactory, StoredEvent
from eventsourcing.utils import Environment

factory = InfrastructureFactory.construct(Environment("Shop", {variables!r}))
recorder = factory.application_recorder()
for version in range(1, 301, 2):
    recorder.insert_events([StoredEvent(sys.argv[1], version + n, "shop:Sold", b"") for n in (0, 1)])
factory.close()
"""


def in_background(work: Callable[[], object]) -> threading.Thread:
    """Start a thread."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_subscription_starts_in_the_past(factory: NewFactory) -> None:
    """And goes on with what is recorded while it waits, without a gap."""
    recorder = factory().application_recorder()
    recorder.insert_events(events("a", *range(1, 1101)))
    with recorder.subscribe(gt=7) as subscription:
        past = [n.id for n in islice(subscription, 1093)]
        writer = in_background(lambda: [recorder.insert_events(events("b", n)) for n in range(50)])
        present = [n.id for n in islice(subscription, 50)]
    writer.join()

    assert past + present == list(range(8, 1151))


def test_news_of_this_process_come_at_once(factory: NewFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one who waits is woken, however seldom he would look of his own accord."""
    monkeypatch.setattr(following, "POLL_SECONDS", 60.0)
    recorder = factory().application_recorder()
    started = time.monotonic()
    with recorder.subscribe() as subscription:
        for version in range(1, 6):
            writer = threading.Timer(0.05, recorder.insert_events, [events("a", version)])
            writer.start()
            assert next(subscription).id == version
            writer.join()

    assert time.monotonic() - started < 10


def test_news_of_another_process_come_soon(factory: NewFactory, variables: dict[str, str]) -> None:
    """Within a quarter of a second; one may be late where the machine has other things to do."""
    recorder = factory().application_recorder()
    code = WRITER.format(variables=variables, count=10)
    writer = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, text=True)
    assert writer.stdin is not None
    delays = []
    with writer, recorder.subscribe() as subscription:
        for _ in range(10):
            writer.stdin.write("\n")
            writer.stdin.flush()
            delays.append(time.time() - float(next(subscription).state))

    assert writer.returncode == 0
    assert sorted(delays)[-2] < 0.25


@pytest.mark.long
def test_nothing_is_missed_while_processes_write(factory: NewFactory, variables: dict[str, str]) -> None:
    """Who follows several writers sees each event once, in the order of their ids."""
    recorder = factory().application_recorder()
    code = CROWD.format(variables=variables)
    with recorder.subscribe() as subscription:
        writers = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "xyz"]
        seen = [(n.id, n.originator_id, n.originator_version) for n in islice(subscription, 3 * 300)]
    for writer in writers:
        assert writer.wait() == 0

    assert [found[0] for found in seen] == list(range(1, 901))
    for name in "xyz":
        assert [version for _, who, version in seen if who == name] == list(range(1, 301))


def test_topics_are_chosen(factory: NewFactory) -> None:
    """What lies between them is passed over for good, not searched again and again."""
    recorder = factory().application_recorder()
    recorder.insert_events([event("a", n, topic=f"shop:T{n % 3}") for n in range(30)])
    with recorder.subscribe(gt=5, topics=["shop:T1", "shop:T2"]) as subscription:
        seen = [n.topic for n in islice(subscription, 16)]

        assert recorder.select_page(after=5, limit=100, topics=["shop:T9"]).until == 30
    assert set(seen) == {"shop:T1", "shop:T2"}


def test_stopping_ends_a_wait(factory: NewFactory) -> None:
    """From any thread, and no thread is left."""
    recorder = factory().application_recorder()
    before = threading.active_count()
    subscription = recorder.subscribe()
    stopper = threading.Timer(0.1, subscription.stop)
    stopper.start()

    assert list(subscription) == []

    stopper.join()
    assert threading.active_count() == before


def test_a_subscription_is_entered_once(factory: NewFactory) -> None:
    """As the package's own."""
    subscription = factory().application_recorder().subscribe()

    with subscription, pytest.raises(ProgrammingError):
        subscription.__enter__()


def test_closing_ends_a_wait_with_an_error(factory: NewFactory) -> None:
    """Whoever follows a database that was closed is told; stopping is still possible."""
    opened = factory()
    subscription = opened.application_recorder().subscribe()
    closer = threading.Timer(0.1, opened.close)
    closer.start()

    with pytest.raises(InterfaceError):
        next(subscription)

    closer.join()
    subscription.stop()
    assert list(subscription) == []


def test_a_sequence_that_went_back(factory: NewFactory) -> None:
    """Whoever has seen more than there is, as before the restore of an older copy, is told, and does not wait."""
    recorder = factory().application_recorder()
    recorder.insert_events(events("a", 1, 2))
    for topics in ([], ["shop:Other"]):
        with (
            recorder.subscribe(gt=3, topics=topics) as subscription,
            pytest.raises(OperationalError, match="went back: 3 notifications were seen, and it has 2"),
        ):
            next(subscription)


def test_a_sequence_that_went_back_and_grew_again(factory: NewFactory) -> None:
    """Other events took the places of those that were seen: they are not handed out."""
    recorder, grown = factory().application_recorder(), factory("Other").application_recorder()
    recorder.insert_events(events("a", 1, 2))
    grown.insert_events(events("a", 1))
    grown.insert_events(events("b", 1))
    with recorder.subscribe(gt=0) as subscription:
        assert [one.id for one in islice(subscription, 2)] == [1, 2]
        # As after an older copy was put in the place of the database.
        subscription._recorder = grown
        grown.insert_events(events("c", 1))
        with pytest.raises(OperationalError, match="went back: notification 2 is not the one that was seen"):
            next(subscription)
