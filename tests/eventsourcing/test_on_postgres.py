"""What is special about our recorders on PostgreSQL: where it is, what is refused, and lost connections."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate
from eventsourcing.persistence import DataError, IntegrityError, OperationalError, ProgrammingError, Tracking
from eventsourcing.utils import get_topic

from refold.domain.ids import SLICES
from refold.domain.positions import BEGINNING
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.recorders.postgres import PostgresDatastore, PostgresSettings
from tests.eventsourcing.opening import NewFactory, event, events, postgres_variables

pytestmark = pytest.mark.parametrize("variables", ["postgres"], indirect=True)
PASSWORDS_ASKED_FOR: list[str] = []


def new_password() -> str:
    """Make up a password, as an application would fetch one that holds for a while."""
    PASSWORDS_ASKED_FOR.append("secret")
    return "secret"


@pytest.fixture
def server(pg_url: str, variables: dict[str, str]) -> Iterator[psycopg.Connection]:
    """A connection of its own to the same database."""
    with psycopg.connect(pg_url, autocommit=True) as connection:
        yield connection


def test_an_application_needs_a_module_and_a_database(variables: dict[str, str], pg_url: str) -> None:
    """A socket's folder will do for a host, and where the server asks for no password none is needed."""
    env = {"PERSISTENCE_MODULE": "refold.infrastructure.postgres", **postgres_variables(pg_url)}
    with Application[UUID](env) as application:
        application.save(Aggregate(), Aggregate())
    with Application[UUID](env) as application:
        assert [n.id for n in application.notification_log.select(1, 10)] == [1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"POSTGRES_ENABLE_DB_FUNCTIONS": "y"},
        {"SHOP_POSTGRES_ENABLE_DB_FUNCTIONS": "true"},
        {"POSTGRES_POOL_SIZE": "many"},
        {"POSTGRES_CONNECT_TIMEOUT": "soon"},
        {"POSTGRES_LOCK_TIMEOUT": "x"},
    ],
)
def test_variables_that_cannot_be_followed_are_named(factory: NewFactory, changes: dict[str, str]) -> None:
    """Above all the functions that lose events."""
    with pytest.raises(OSError, match=next(iter(changes)).removeprefix("SHOP_")):
        factory(**changes)


@pytest.mark.parametrize("variable", ["POSTGRES_DBNAME", "POSTGRES_HOST", "POSTGRES_USER"])
def test_a_database_must_be_named(variables: dict[str, str], variable: str) -> None:
    """With these three."""
    env = {name: value for name, value in variables.items() if name != variable}

    with pytest.raises(OSError, match=f"APPLICATION_{variable} or {variable}"):
        Application[UUID](env)


def test_empty_variables_say_nothing(factory: NewFactory) -> None:
    """They leave things as they are."""
    recorder = factory(POSTGRES_POOL_SIZE="", POSTGRES_PORT="", POSTGRES_PRE_PING="").application_recorder()

    assert recorder.insert_events(events("a", 1)) == [1]


class RefusedOnce:
    """The transactions of a data store; the first of them meets an error of the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusal: psycopg.Error) -> None:
        self.begun = 0
        self._refusal = refusal
        self._transaction = PostgresDatastore.transaction
        monkeypatch.setattr(PostgresDatastore, "transaction", lambda store, **given: self._begin(store, **given))

    @contextmanager
    def _begin(self, store: PostgresDatastore, **given: Any) -> Iterator[Any]:
        self.begun += 1
        if self.begun == 1:
            raise OperationalError("refused") from self._refusal
        with self._transaction(store, **given) as cursor:
            yield cursor


@pytest.mark.parametrize("refusal", [psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation])
def test_tables_that_another_is_making(
    factory: NewFactory, monkeypatch: pytest.MonkeyPatch, refusal: type[psycopg.Error]
) -> None:
    """Two applications may start at once: they are there the next time."""
    transactions = RefusedOnce(monkeypatch, refusal())
    recorder = factory().application_recorder()

    assert transactions.begun == 2
    assert recorder.insert_events(events("a", 1)) == [1]


def test_tables_that_cannot_be_made(factory: NewFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no right to make them is told so, and does not try again."""
    transactions = RefusedOnce(monkeypatch, psycopg.errors.InsufficientPrivilege())

    with pytest.raises(OperationalError, match="refused"):
        factory().application_recorder()
    assert transactions.begun == 1


def test_a_schema_keeps_things_apart(factory: NewFactory, server: psycopg.Connection) -> None:
    """Whatever it is called."""
    server.execute('CREATE SCHEMA "Größe""s"')
    apart = factory(POSTGRES_SCHEMA='Größe"s')
    for opened in (factory(), apart):
        recorder = opened.process_recorder()
        assert recorder.insert_events(events("a", 1), tracking=Tracking("up", 1)) == [1]
        opened.aggregate_recorder("snapshots").insert_events(events("a", 1))

    row = server.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'Größe\"s'").fetchone()
    assert row is not None
    assert row[0] > 5


@pytest.mark.parametrize(("state", "attempts"), [("23505", 2), ("42P07", 2), ("42501", 1)])
def test_tables_that_others_make_at_once(
    factory: NewFactory, monkeypatch: pytest.MonkeyPatch, state: str, attempts: int
) -> None:
    """They are made in a second attempt; any other refusal is raised at the first."""
    made: list[int] = []
    begin = PostgresDatastore.transaction

    def refused_once(self: PostgresDatastore, *, commit: bool = False) -> Any:
        made.append(1)
        if len(made) > 1:
            return begin(self, commit=commit)
        raise OperationalError("refused") from psycopg.errors.lookup(state)()

    monkeypatch.setattr(PostgresDatastore, "transaction", refused_once)
    opened = factory()
    made.clear()
    if attempts == 1:
        with pytest.raises(OperationalError, match="refused"):
            opened.application_recorder()
    else:
        opened.application_recorder()
    assert len(made) == attempts


def test_a_fresh_password_is_asked_for_each_time(factory: NewFactory) -> None:
    """One that is fetched may not hold for long."""
    PASSWORDS_ASKED_FOR.clear()
    opened = factory(POSTGRES_GET_PASSWORD_TOPIC=get_topic(new_password))
    opened.process_recorder().insert_events(events("a", 1), tracking=Tracking("up", 1))

    assert len(PASSWORDS_ASKED_FOR) >= 2


def test_a_server_that_is_not_there_is_missed_at_once(factory: NewFactory) -> None:
    """And the error is one of the package's."""
    opened = factory(POSTGRES_HOST="/nowhere", CREATE_TABLE="n")

    with pytest.raises(OperationalError, match="cannot be opened"):
        opened.application_recorder().max_notification_id()


def test_an_application_has_a_slice_of_its_own(factory: NewFactory, server: psycopg.Connection) -> None:
    """Beyond those of Refold's own log."""
    factory().application_recorder().insert_events(events("a", 1, 2))

    rows = server.execute("SELECT DISTINCT slice FROM shop__event").fetchall()

    assert [slice_number >= SLICES for (slice_number,) in rows] == [True]


def test_refolds_own_log_may_lie_beside(factory: NewFactory, pg_url: str) -> None:
    """Neither sees the other's events."""
    recorder = factory().application_recorder()
    recorder.insert_events(events("a", 1))
    log = PostgresLog(pg_url)

    assert log.read_all(after=BEGINNING, limit=10).events == []

    log.close()
    assert recorder.insert_events(events("a", 2)) == [2]


def test_lost_connections_are_replaced(factory: NewFactory, server: psycopg.Connection) -> None:
    """After a restart of the server, say: nothing is lost, nothing recorded twice."""
    opened = factory()
    recorder = opened.process_recorder()
    recorder.insert_events(events("a", 1), tracking=Tracking("up", 1))
    server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    assert recorder.insert_events(events("a", 2), tracking=Tracking("up", 2)) == [2]
    assert recorder.select_events("a") == events("a", 1, 2)
    assert recorder.max_tracking_id("up") == 2


def test_a_version_that_is_taken_while_others_write(factory: NewFactory) -> None:
    """What one factory remembers of a stream does not mislead it."""
    first, second = (factory().application_recorder() for _ in range(2))
    first.insert_events(events("a", 1))
    second.insert_events(events("a", 2))

    with pytest.raises(IntegrityError):
        first.insert_events(events("a", 2))

    assert first.insert_events(events("a", 3)) == [3]


def test_other_programs_tables_are_left_alone(factory: NewFactory, server: psycopg.Connection) -> None:
    """Where one of them has a name of ours, that is said."""
    server.execute("CREATE TABLE shop__stream (something int)")

    with pytest.raises((OperationalError, ProgrammingError), match="shop__"):
        factory().application_recorder()


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 3000])
def test_text_that_cannot_be_stored_is_refused(factory: NewFactory, text: str) -> None:
    """Before it gets anywhere, so that it harms no other."""
    recorder = factory().application_recorder()

    with pytest.raises(DataError):
        recorder.insert_events(events(text, 1))
    with pytest.raises(DataError):
        recorder.insert_events([event("a", 1, topic=text)])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE shop__event SET payload = '\\x00616263' WHERE version = 2",
        "UPDATE shop__event SET recorded_at = 1 WHERE version = 2",
        "UPDATE shop__tag SET name = 'shop:Given'",
        "DELETE FROM shop__tag",
        "DELETE FROM shop__event WHERE version = 1",
        "DELETE FROM shop__event WHERE version = 2",
    ],
)
def test_damage_is_found(factory: NewFactory, server: psycopg.Connection, statement: str) -> None:
    """Whatever was changed, state, topic, time or order, an event that is not as it was is not given out."""
    recorder = factory().application_recorder()
    recorder.insert_events(events("a", 1, 2, 3))
    server.execute(statement.encode())

    with pytest.raises(DataError, match="damaged"):
        recorder.select_events("a")
    with pytest.raises(DataError, match="damaged"):
        recorder.select_notifications(None, 10)


def test_what_an_environment_leaves_out(variables: dict[str, str]) -> None:
    """Seconds, sizes and ports are as the package's own factory has them."""
    given = {name: variables[f"POSTGRES_{name.upper()}"] for name in ("dbname", "host", "user")}

    assert dataclasses.asdict(PostgresSettings(**given)) == {  # type: ignore[arg-type]
        **given, "port": "5432", "password": None, "get_password": None, "schema": "",
        "originator_id_type": "uuid", "connect_timeout": 30, "lock_timeout": 0,
        "idle_in_transaction_session_timeout": 5, "pool_size": 5, "max_overflow": 10, "max_waiting": 0,
        "conn_max_age": 3600, "pre_ping": False,
    }  # fmt: skip
