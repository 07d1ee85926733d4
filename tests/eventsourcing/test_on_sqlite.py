"""What is special about our recorders on SQLite: how a database is named, and damage is found."""

import sqlite3
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate
from eventsourcing.persistence import DataError, InterfaceError, OperationalError

from tests.eventsourcing.opening import NewFactory, events

pytestmark = pytest.mark.parametrize("variables", ["sqlite"], indirect=True)


def changed(file: Path, statement: str) -> None:
    """Change a database behind the back of its recorders."""
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.usefixtures("variables")
def test_one_variable_is_enough(tmp_path: Path) -> None:
    """Besides the name of the file."""
    env = {"PERSISTENCE_MODULE": "refold.infrastructure.sqlite", "SQLITE_DBNAME": str(tmp_path / "a.db")}
    with Application[UUID](env) as application:
        application.save(Aggregate(), Aggregate())
    with Application[UUID](env) as application:
        assert [n.id for n in application.notification_log.select(1, 10)] == [1, 2]


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file:{}?mode=rwc", "file:{}?cache=shared"])
def test_a_file_has_many_names(factory: NewFactory, tmp_path: Path, form: str) -> None:
    """A path, or a URI of it, percent-encoded or not."""
    file = tmp_path / "ein %20 raum.db"
    factory(SQLITE_DBNAME=str(file)).application_recorder().insert_events(events("a", 1))
    name = form.format(str(file).replace("%", "%25") if form.startswith("file") else file)

    recorder = factory(SQLITE_DBNAME=name).application_recorder()

    assert recorder.select_events("a") == events("a", 1)


def test_a_file_may_be_read_only(factory: NewFactory, tmp_path: Path) -> None:
    """Then it is read, and nothing is written."""
    file = tmp_path / "events.db"
    factory().application_recorder().insert_events(events("a", 1))

    recorder = factory(SQLITE_DBNAME=f"file:{file}?mode=ro", CREATE_TABLE="n").application_recorder()

    assert recorder.select_events("a") == events("a", 1)
    with pytest.raises(OperationalError):
        recorder.insert_events(events("a", 2))


@pytest.mark.parametrize("name", ["{}/none/a.db", "{}", "file:{}/a.db?mode=rw", "file:{}/a.db?vfs=unix-none"])
def test_what_cannot_be_opened_is_said(factory: NewFactory, tmp_path: Path, name: str) -> None:
    """At once, and as an error of the package."""
    with pytest.raises(InterfaceError, match=r"a\.db|folder"):
        factory(SQLITE_DBNAME=name.format(tmp_path))


def test_a_variable_that_is_no_number(factory: NewFactory) -> None:
    """It is named."""
    with pytest.raises(OSError, match="SQLITE_LOCK_TIMEOUT"):
        factory(SQLITE_LOCK_TIMEOUT="soon")


def test_a_database_must_be_named(factory: NewFactory) -> None:
    """Both names of the variable are said."""
    with pytest.raises(OSError, match="SHOP_SQLITE_DBNAME or SQLITE_DBNAME"):
        factory(SQLITE_DBNAME="")


@pytest.mark.parametrize("name", ["file:{}?mode=memory&cache=shared", "file::memory:?cache=shared&x={}"])
def test_a_shared_memory_database_lives_as_long_as_its_users(factory: NewFactory, name: str) -> None:
    """All who name it see the same; with the last one it is gone."""
    name = name.format(uuid4())
    first, second = factory(SQLITE_DBNAME=name), factory(SQLITE_DBNAME=name)
    first.application_recorder().insert_events(events("a", 1))
    recorder = second.application_recorder()
    first.close()
    assert recorder.select_events("a") == events("a", 1)
    second.close()

    assert factory(SQLITE_DBNAME=name).application_recorder().select_events("a") == []


@pytest.mark.parametrize("name", [":memory:", "file::memory:", "file:x?mode=memory"])
def test_a_private_memory_database_is_private(factory: NewFactory, name: str) -> None:
    """Each factory has its own, with as many connections as it likes."""
    recorder = factory(SQLITE_DBNAME=name).application_recorder()
    recorder.insert_events(events("a", 1))

    assert recorder.select_events("a") == events("a", 1)
    assert factory(SQLITE_DBNAME=name).application_recorder().max_notification_id() is None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE shop__event SET payload = x'00616263' WHERE version = 2",
        "UPDATE shop__event SET recorded_at = 1 WHERE version = 2",
        "UPDATE shop__tag SET name = 'shop:Given'",
        "DELETE FROM shop__tag",
        "DELETE FROM shop__event WHERE version = 1",
        "DELETE FROM shop__event WHERE version = 2",
        "UPDATE shop__event SET payload = x'' WHERE version = 3",
    ],
)
def test_damage_is_found(factory: NewFactory, tmp_path: Path, statement: str) -> None:
    """Whatever was changed, state, topic, time or order, an event that is not as it was is not given out."""
    recorder = factory().application_recorder()
    recorder.insert_events(events("a", 1, 2, 3))
    changed(tmp_path / "events.db", statement)

    with pytest.raises(DataError, match="damaged"):
        recorder.select_events("a")
    with pytest.raises(DataError, match="damaged"):
        recorder.select_notifications(None, 10)


def test_a_state_that_asks_for_a_dictionary(factory: NewFactory, tmp_path: Path) -> None:
    """States are compressed without, so it is damaged, and the error says which one it asks for."""
    recorder = factory().application_recorder()
    recorder.insert_events(events("a", 1, 2))
    changed(tmp_path / "events.db", "UPDATE shop__event SET payload = x'020007616263' WHERE version = 2")

    with pytest.raises(DataError, match="dictionary 7 is damaged: it is missing, and states were compressed with it"):
        recorder.select_events("a")


def test_a_locked_file_is_an_operational_error(factory: NewFactory, tmp_path: Path) -> None:
    """After the wait that was allowed."""
    recorder = factory(SQLITE_LOCK_TIMEOUT="1").application_recorder()
    other = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(OperationalError, match="locked"):
        recorder.insert_events(events("a", 1))

    other.close()
    assert recorder.insert_events(events("a", 1)) == [1]
