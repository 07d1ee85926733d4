"""A store's own events through the package: read, followed, projected, and never written."""

import shutil
import threading
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.application import Application, ProcessingEvent
from eventsourcing.dispatch import singledispatchmethod
from eventsourcing.persistence import (
    DataError,
    InfrastructureFactory,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    StoredEvent,
)
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import EventSourcedProjection, EventSourcedProjectionRunner, Projection, ProjectionRunner
from eventsourcing.system import Follower, SingleThreadedRunner, System
from eventsourcing.utils import Environment

import refold
from refold.domain.chat.events import ERASED_TEXT, MessageAdded
from refold.domain.chat.events import Opened as ChatOpened
from refold.domain.errors import DamagedError, InvalidInputError, NotFoundError
from refold.domain.ids import SLICES, slice_of
from refold.domain.log.envelope import RecordedEvent
from refold.domain.positions import BEGINNING
from refold.infrastructure.exchange.export import export_events
from refold.infrastructure.recorders.store import EventMapper, RecordedEventMapper, StoreFactory, StoreRecorder
from refold.infrastructure.store import Store
from tests.contract.stores import KEYS
from tests.eventsourcing.opening import postgres_variables
from tests.projecting.test_set_aside import whisper

SESSION = "desk"
HERE = "refold.infrastructure.recorders.store"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A path or a URL, or memory."""
    if request.param == "postgres":
        return str(request.getfixturevalue("pg_url"))
    return ":memory:" if request.param == "memory" else str(tmp_path / "agents.db")


@pytest.fixture
def store(location: str) -> Iterator[Store]:
    """A store with two chats of one session: 8 events, and more of another session on top."""
    with refold.open(location) as opened:
        for name in ("a", "b"):
            chat = opened.chat(name, session=SESSION)
            for number in range(3):
                chat.add_message("user", f"{name}{number}")
        yield opened


def recorder_of(store: Store) -> StoreRecorder:
    """The sequence that the session lies in."""
    return store.recorder("a")


def settings_of(store: Store, location: str) -> dict[str, str]:
    """The variables that name a store to an application called Contexts."""
    slices = {"CONTEXTS_REFOLD_SLICE": str(slice_of(SESSION))} if store.log.has_slices else {}
    return {"CONTEXTS_PERSISTENCE_MODULE": HERE, "CONTEXTS_REFOLD_DB": location, **slices}


class Contexts(Application[str]):
    """Any application of the package, given a store by its environment."""


def contexts_of(store: Store) -> type[Application[str]]:
    """An application over a store that is open."""

    class OpenContexts(Application[str]):
        name = "Contexts"

        def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
            return StoreFactory(env, recorder_of(store))

    return OpenContexts


# Reading


def test_the_sequence_is_the_log(store: Store) -> None:
    """Each event once, in the order of the log, with its place, its tag, and a state that is the event."""
    recorder = recorder_of(store)
    recorded = store.log.read_all(after=BEGINNING, limit=100).events
    found = recorder.select_notifications(1, 100)

    assert [(one.id, one.originator_id, one.originator_version) for one in found] == [
        (one.position.number, one.stream, one.version) for one in recorded
    ]
    assert [one.topic for one in found] == ["chat.opened.v1", *["chat.message_added.v1"] * 3] * 2
    mapper = RecordedEventMapper(StoreFactory({}).transcoder())
    assert [mapper.to_domain_event(one) for one in found] == recorded
    plain = EventMapper(StoreFactory({}).transcoder())
    assert [plain.to_domain_event(one) for one in found] == [one.event for one in recorded]
    assert recorder.max_notification_id() == 8


def test_a_stream_in_part() -> None:
    """As a list would be cut."""
    with refold.open(":memory:") as store:
        chat, recorder = store.chat("a"), store.recorder()
        for number in range(3):
            chat.add_message("user", f"{number}")
        bounds = product([None, 0, 1, 3, 9], [None, 0, 2, 4, 9], [None, 0, 1, 2, 9], [False, True])
        for gt, lte, limit, desc in bounds:
            versions = [version for version in range(1, 5) if (gt or 0) < version <= (4 if lte is None else lte)]
            found = recorder.select_events("chat:a", gt=gt, lte=lte, desc=desc, limit=limit)

            assert [one.originator_version for one in found] == (versions[::-1] if desc else versions)[:limit]


def test_a_stream(store: Store) -> None:
    """By its id; there is none of another id."""
    recorder = recorder_of(store)

    assert [one.originator_version for one in recorder.select_events("chat:a")] == [1, 2, 3, 4]
    assert [one.originator_version for one in recorder.select_events("chat:b", desc=True, limit=2)] == [4, 3]
    assert recorder.select_events("chat:c") == []


def test_notifications_in_part(store: Store) -> None:
    """From and to an id, of some topics, up to a number of them."""
    recorder = recorder_of(store)

    def ids(*args: Any, **options: Any) -> list[int]:
        return [one.id for one in recorder.select_notifications(*args, **options)]

    assert ids(None, 3) == [1, 2, 3]
    assert ids(3, 2) == [3, 4]
    assert ids(3, 2, inclusive_of_start=False) == [4, 5]
    assert ids(3, 10, 5) == [3, 4, 5]
    assert ids(1, 10, topics=["chat.opened.v1"]) == [1, 5]
    assert ids(2, 1, topics=["chat.opened.v1"]) == [5]
    assert ids(2, 1, 4, topics=["chat.opened.v1"]) == []
    assert ids(9, 10) == ids(1, 0) == []


def test_an_empty_store(location: str) -> None:
    """Has no last id, and no notification."""
    with refold.open(location) as store:
        recorder = store.recorder(slice_number=0 if store.log.has_slices else None)

        assert recorder.max_notification_id() is None
        assert recorder.select_notifications(1, 10) == []


def test_sealed_events_are_read_too(tmp_path: Path) -> None:
    """A log of blocks and rows is one sequence."""
    with refold.open(tmp_path / "long.db") as store, store.transaction():
        chat = store.chat("long")
        for number in range(1_200):
            chat.add_message("user", f"{number}")
    with refold.open(tmp_path / "long.db") as store:
        found = store.recorder().select_notifications(1, 2_000)

    assert [one.id for one in found] == list(range(1, 1_202))


# Slices


@pytest.mark.parametrize("keys", [None, KEYS], ids=["plain", "encrypted"])
def test_a_sequence_is_named_where_there_are_several(pg_url: str, keys: refold.Keys | None) -> None:
    """By its number, or by a context that lies in it."""
    with refold.open(pg_url, keys=keys) as store:
        store.chat("a", session=SESSION).add_message("user", "hello")
        store.chat("far", session="elsewhere").add_message("user", "hello")
        by_number = store.recorder(slice_number=slice_of(SESSION))

        assert slice_of(SESSION) != slice_of("elsewhere")
        assert by_number.select_notifications(1, 10) == store.recorder("chat:a").select_notifications(1, 10)
        assert [one.originator_id for one in by_number.select_notifications(1, 10)] == ["chat:a", "chat:a"]
        assert by_number.select_events("chat:far") == []
        assert (by_number.max_notification_id(), by_number.select_notifications(3, 10)) == (2, [])
        with by_number.subscribe(gt=1) as subscription:
            assert next(subscription).id == 2
        empty = next(number for number in range(SLICES) if not store.log.now().head(number))
        assert store.recorder(slice_number=empty).select_notifications(1, 10) == []
        for number in (None, -1, SLICES):
            with pytest.raises(InvalidInputError, match="1,024 sequences"):
                store.recorder(slice_number=number)
        with pytest.raises(NotFoundError):
            store.recorder("chat:nobody")


def test_one_sequence_has_no_slices() -> None:
    """Whoever names one expects something else."""
    with refold.open(":memory:") as store, pytest.raises(InvalidInputError, match="no slices"):
        store.recorder(slice_number=3)


# Refusals


def test_nothing_is_written(store: Store) -> None:
    """Neither by the recorder, nor by an application over it, nor by its mapper."""
    recorder = recorder_of(store)
    factory = StoreFactory({}, recorder)
    event = StoredEvent("chat:a", 5, "chat.message_added.v1", b"")
    refused: list[Any] = [
        lambda: recorder.insert_events([event]),
        lambda: factory.mapper().to_stored_event(event),
        lambda: factory.aggregate_recorder("snapshots"),
        factory.tracking_recorder,
        factory.process_recorder,
    ]

    for call in refused:
        with pytest.raises(NotSupportedError):
            call()
    with pytest.raises(NotSupportedError, match="written by contexts"):
        recorder.insert_events([event])
    assert factory.aggregate_recorder() is factory.application_recorder() is recorder
    assert recorder.max_notification_id() == 8


def test_damage_is_an_error_of_the_package(tmp_path: Path) -> None:
    """A changed row is not handed on."""
    with refold.open(tmp_path / "a.db") as store:
        store.chat("a").add_message("user", "hello")
        store.log.database.write(  # type: ignore[attr-defined]  # a log on SQLite
            lambda connection: connection.execute("UPDATE event SET recorded_at = 1 WHERE position = 2")
        )
        with pytest.raises(DataError, match="does not match its digest"):
            store.recorder().select_notifications(1, 10)
        with pytest.raises(DataError, match="does not match its digest"):
            store.recorder().select_events("chat:a")


def test_a_closed_store(location: str) -> None:
    """Is no interface any more; memory stays what it was."""
    store = refold.open(location)
    store.chat("a").add_message("user", "hello")
    recorder = recorder_of(store)
    store.close()

    if location != ":memory:":
        with pytest.raises(InterfaceError):
            recorder.select_notifications(1, 10)


@pytest.mark.parametrize(
    ("variables", "message"),
    [({}, "no store is named"), ({"REFOLD_DB": ":memory:", "REFOLD_SLICE": "many"}, "whole number")],
)
def test_variables_that_cannot_be(variables: dict[str, str], message: str) -> None:
    """Are said to be so at once."""
    with pytest.raises(OSError, match=message):
        StoreFactory(variables).application_recorder()


def test_a_store_that_is_missing(tmp_path: Path) -> None:
    """Is not made by those who would read it."""
    with pytest.raises(InterfaceError):
        StoreFactory({"REFOLD_DB": str(tmp_path / "none.db")}).application_recorder()
    assert not (tmp_path / "none.db").exists()


# Following


def test_a_subscription_goes_from_the_past_into_the_present(store: Store) -> None:
    """Without a gap, of the topics that are chosen, until it is stopped."""
    recorder, chat = recorder_of(store), store.chat("a")
    with recorder.subscribe(gt=2, topics=["chat.message_added.v1"]) as subscription:
        past = [one.id for one in islice(subscription, 5)]
        writer = threading.Thread(target=lambda: [chat.add_message("user", "later") for _ in range(5)])
        writer.start()
        present = [one.id for one in islice(subscription, 5)]
        writer.join()
        stopper = threading.Timer(0.1, subscription.stop)
        stopper.start()
        rest = list(subscription)
        stopper.join()

    assert past == [3, 4, 6, 7, 8]
    assert present == [9, 10, 11, 12, 13]
    assert rest == []


def test_a_log_that_went_back(store: Store) -> None:
    """A follower that has seen more than there is does not wait until the log is as long again."""
    with recorder_of(store).subscribe(gt=9) as subscription, pytest.raises(OperationalError, match="and it has 8"):
        next(subscription)


def test_a_log_that_went_back_and_grew_again(tmp_path: Path) -> None:
    """Whoever has seen other events is told of it, and not given those that took their places."""
    place, older = tmp_path / "a.db", tmp_path / "older.db"
    with refold.open(place) as store:
        store.chat("a").add_message("user", "kept")
    shutil.copy(place, older)
    with refold.open(place) as store:
        store.chat("a").add_message("user", "lost")
        recorders = store.recorder(), store.recorder()
        following = [recorders[0].subscribe(gt=1), recorders[1].subscribe(topics=["chat.message_added.v1"])]
        assert [[one.id for one in islice(each, 2)] for each in following] == [[2, 3], [2, 3]]
    with refold.open(older) as store:
        for number in range(3):
            store.chat("a").add_message("user", f"other {number}")
        for each in following:
            each._recorder = store.recorder()
            with pytest.raises(OperationalError, match="went back: notification 3 is not the one that was seen"):
                next(each)


@pytest.mark.parametrize("location", ["sqlite", "postgres"], indirect=True)
def test_an_event_that_cannot_be_decoded(location: str, tmp_path: Path) -> None:
    """Its error names it and says where to read on; a subscription goes on behind it. A log in memory has none."""
    whisper(location)
    with refold.open(location) as store:
        recorder = store.recorder("newer" if store.log.has_slices else None)
        assert [one.id for one in recorder.select_notifications(1, 10)] == [1, 2]
        for topics in ([], ["chat.message_added.v1"]):
            with pytest.raises(DataError, match=r"event chat:newer@3 .*whispered.*to read on, start at 4"):
                recorder.select_notifications(3, 10, topics=topics)
        assert recorder.select_notifications(3, 10, 2) == []
        store.chat("newer-too", session="newer").add_message("user", "behind")
        given, named = list[str](), list[str]()
        with recorder.subscribe(topics=["chat.opened.v1"]) as subscription:
            while "chat:newer-too" not in given:
                try:
                    given.append(str(next(subscription).originator_id))
                except DataError as error:
                    named.append(str(error))
        assert [one.split(" is damaged")[0] for one in named] == ["event chat:newer@3", "event chat:newer@4"]
        assert given[0] == "chat:newer"
        with pytest.raises(DamagedError, match=r"event chat:newer@3 .*can be exported by their names"):
            export_events(store.log, tmp_path / "all.jsonl")


def test_what_is_erased_before_it_is_handed_out(store: Store) -> None:
    """It comes as what is left of it, once, and the subscription has no text of it any more."""
    with recorder_of(store).subscribe(topics=["chat.message_added.v1"]) as subscription:
        assert next(subscription).id == 2
        store.erase(context="a", why="asked for", dry_run=False)
        assert "created_at" not in repr(vars(subscription))
        rest = list(islice(subscription, 2))

    mapper = EventMapper(StoreFactory({}).transcoder())
    left = [(one.id, mapper.to_domain_event(one).content) for one in rest]
    assert left == [(3, (ERASED_TEXT,)), (4, (ERASED_TEXT,))]


class MessagesView(POPOTrackingRecorder):
    """Counts messages, and what else there was."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = {"messages": 0, "others": 0}

    def count(self, name: str, tracking: Any) -> None:
        """Count one more, once."""
        with self._database_lock:
            self._assert_tracking_uniqueness(tracking)
            self._insert_tracking(tracking)
            self.counts[name] += 1


class Messages(Projection[MessagesView]):
    """Dispatches on Refold's event classes."""

    @singledispatchmethod
    def process_event(self, domain_event: Any, tracking: Any) -> None:
        """Count another event."""
        self.view.count("others", tracking)

    @process_event.register
    def _(self, domain_event: MessageAdded, tracking: Any) -> None:
        assert domain_event.role == "user"
        self.view.count("messages", tracking)


def test_the_packages_projection_runner(store: Store) -> None:
    """Over a store that is open: what is there, then what comes."""
    chat = store.chat("a")
    application = contexts_of(store)
    with ProjectionRunner(
        application_class=application, projection_class=Messages, view_class=MessagesView, env={}
    ) as runner:
        runner.wait(8, timeout=10)
        before = dict(runner.view.counts)
        chat.add_message("user", "one more")
        runner.wait(store.recorder("a").max_notification_id(), timeout=10)

        assert before == {"messages": 6, "others": 2}
        assert runner.view.counts == {"messages": 7, "others": 2}
    # The store was not opened by the application, and so is not closed by it.
    assert chat.add_message("user", "and another")


class ByContext(EventSourcedProjection[str]):
    """Takes events with their envelopes."""

    def __init__(self, env: Any = None) -> None:
        super().__init__(env)
        self.seen: list[tuple[str, int]] = []

    @singledispatchmethod
    def policy(self, domain_event: Any, processing_event: ProcessingEvent[str]) -> None:
        """Look at nothing else."""

    @policy.register
    def _(self, domain_event: RecordedEvent, processing_event: ProcessingEvent[str]) -> None:
        self.seen.append((domain_event.stream, domain_event.version))


def test_the_packages_event_sourced_projection_runner(store: Store, location: str) -> None:
    """By the environment, with events in their envelopes; it keeps its place beside the contexts, and goes on there."""
    if location == ":memory:":
        pytest.skip("another process cannot name a store in memory")
    kept = {"PERSISTENCE_MODULE": "refold.infrastructure.sqlite", "SQLITE_DBNAME": location}
    if store.log.has_slices:
        kept = {"PERSISTENCE_MODULE": "refold.infrastructure.postgres", **postgres_variables(location)}
    settings = kept | settings_of(store, location) | {"CONTEXTS_MAPPER_TOPIC": f"{HERE}:RecordedEventMapper"}
    seen = []
    for last in (8, 9):
        with EventSourcedProjectionRunner(
            application_class=Contexts, projection_class=ByContext, env=settings
        ) as runner:
            runner.wait(last, timeout=10)
            seen.append(list(runner.projection.seen))
        store.chat("b").add_message("user", "while nobody looks")

    assert seen[0] == [(f"chat:{name}", version) for name in "ab" for version in (1, 2, 3, 4)]
    assert seen[1] == [("chat:b", 5)]


class Openings(Follower[str]):
    """Follows the contexts as any follower does its leader."""

    topics = ("chat.opened.v1",)

    def __init__(self, env: Any = None) -> None:
        super().__init__(env)
        self.opened: list[str | None] = []

    @singledispatchmethod
    def policy(self, domain_event: Any, processing_event: ProcessingEvent[str]) -> None:
        """Look at nothing else."""

    @policy.register
    def _(self, domain_event: ChatOpened, processing_event: ProcessingEvent[str]) -> None:
        self.opened.append(domain_event.session)


def test_the_packages_follower(store: Store, location: str) -> None:
    """In a system whose leader is a store: it pulls sections of the log, and notes how far it came."""
    if location == ":memory:":
        pytest.skip("another process cannot name a store in memory")
    system = System(pipes=[[Contexts, Openings]])
    with SingleThreadedRunner[str](system, env=settings_of(store, location)) as runner:
        follower = runner.get(Openings)
        follower.pull_and_process("Contexts")
        first = list(follower.opened)
        store.chat("c", session=SESSION).add_message("user", "hello")
        follower.pull_and_process("Contexts")

        assert first == [SESSION, SESSION]
        assert follower.opened == [SESSION] * 3
        assert follower.recorder.max_tracking_id("Contexts") == 9


def test_a_follower_of_an_open_store(store: Store) -> None:
    """Given its notification log by hand, in memory too."""
    leader = contexts_of(store)()
    follower = Openings()
    follower.follow("Contexts", leader.notification_log)
    follower.mappers["Contexts"] = leader.mapper
    follower.pull_and_process("Contexts")

    assert follower.opened == [SESSION, SESSION]
