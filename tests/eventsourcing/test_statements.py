"""What each call of a recorder answers, and the statements that it sends: see tests/golden/told/statements."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from eventsourcing.persistence import Notification, StoredEvent, Tracking

from tests.eventsourcing.conftest import DATABASES
from tests.eventsourcing.opening import NewFactory, event, events
from tests.support.statements import Heard, heard_on_postgres, heard_on_sqlite, without_background
from tests.support.written_down import assert_as_written, stop_clock

PLACE = re.compile(r"\S+/events.db|postgresql://\S+")
Calls = Iterator[tuple[str, Callable[[], Any]]]


def life(factory: NewFactory) -> Calls:
    """Yield calls of all recorders, with their names."""
    shop = factory()
    recorder = shop.application_recorder()
    yield "insert two events", lambda: recorder.insert_events(events("a", 1, 2))
    yield "insert one", lambda: recorder.insert_events(events("a", 3))
    yield "insert for two", lambda: recorder.insert_events([event("b", 1, "shop:Given", b"[1]"), *events("a", 4)])
    yield "insert what is there", lambda: recorder.insert_events(events("a", 3))
    yield "insert none", lambda: recorder.insert_events([])
    yield "select", lambda: recorder.select_events("a")
    yield "select some", lambda: recorder.select_events("a", gt=1, lte=3)
    yield "select the last", lambda: recorder.select_events("a", desc=True, limit=1)
    yield "select no more than two before 4", lambda: recorder.select_events("a", lte=3, limit=2)
    yield "select of nobody", lambda: recorder.select_events("c")
    yield "notifications", lambda: recorder.select_notifications(1, 10)
    yield "some of them", lambda: recorder.select_notifications(2, 3, stop=4)
    yield "behind one", lambda: recorder.select_notifications(2, 2, inclusive_of_start=False)
    yield "with a topic", lambda: recorder.select_notifications(None, 10, topics=["shop:Given"])
    yield "the last number", recorder.max_notification_id

    process = factory("Desk").process_recorder()
    yield "the last number of none", process.max_notification_id
    yield "an event with what it follows", lambda: process.insert_events(events("d", 1), tracking=Tracking("Shop", 1))
    yield "the same again", lambda: process.insert_events(events("d", 2), tracking=Tracking("Shop", 1))
    yield "tracking alone", lambda: process.insert_tracking(Tracking("Shop", 4))
    yield "what was tracked", lambda: process.max_tracking_id("Shop")
    yield "what was not", lambda: process.max_tracking_id("Till")
    yield "whether it was", lambda: process.has_tracking_id("Shop", 4)
    yield "whether it will be", lambda: process.has_tracking_id("Shop", 5)

    snapshots = shop.aggregate_recorder("snapshots")
    yield "a snapshot", lambda: snapshots.insert_events([event("a", 3, "snap", b"{}")])
    yield "another of the same version", lambda: snapshots.insert_events([event("a", 3, "snap", b"{1}")])
    yield "the last snapshot", lambda: snapshots.select_events("a", desc=True, limit=1)
    again = factory().application_recorder()
    yield "insert through another factory", lambda: again.insert_events(events("a", 5))
    yield "insert through the first", lambda: recorder.insert_events(events("b", 2))
    yield "the first again", lambda: recorder.insert_events(events("b", 3))


def answered(work: Callable[[], Any]) -> str:
    """Return what a call answers, or the error that it raises."""
    try:
        answer = work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "; ".join(map(shown, answer)) if isinstance(answer, list | tuple) else shown(answer)


def shown(one: Any) -> str:
    """Return a member of an answer."""
    if isinstance(one, StoredEvent):
        number = f"{one.id} " if isinstance(one, Notification) else ""
        return f"{number}{one.originator_id}@{one.originator_version} {one.topic} {one.state!r}"
    return str(one)


@pytest.mark.parametrize("variables", DATABASES, indirect=True)
def test_statements(factory: NewFactory, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often a call asks the database, and whether it asks again for what is known."""
    stop_clock(monkeypatch)
    without_background(monkeypatch)
    database = request.node.callspec.params["variables"]
    hearing: dict[str, Any] = {"sqlite": heard_on_sqlite, "postgres": heard_on_postgres}
    heard: Heard
    with hearing[database](monkeypatch) as heard:
        for name, work in life(factory):
            heard.calls.append((name, []))
            heard.note(f"-> {answered(work)}")

    assert_as_written(f"statements/recorders_{database}", PLACE.sub("PLACE", heard.told()))
