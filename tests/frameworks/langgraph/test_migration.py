"""Threads in the tables of LangGraph's own savers, as those wrote them, go on in a store."""

import dataclasses
import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

import refold
from refold.domain.errors import InvalidInputError, StorageUnavailableError
from refold.infrastructure.frameworks.langgraph import migration
from refold.infrastructure.frameworks.langgraph.migration import import_threads, require_threads
from refold.infrastructure.frameworks.langgraph.thread import Thread
from refold.infrastructure.store import Store
from refold.langgraph import RefoldSaver
from tests.cli.running import refold as command

from .graphs import everything, said, thread


@dataclasses.dataclass
class Plan:
    """A type of the user's."""

    steps: list[str]


ALLOWED = f"{Plan.__module__}:Plan"


@pytest.fixture(params=["sqlite", "postgres"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a database with their tables."""
    if request.param == "sqlite":
        return str(tmp_path / "theirs.db")
    return str(request.getfixturevalue("ready_pg_url"))


@contextmanager
def saver_at(place: str) -> Iterator[BaseCheckpointSaver[Any]]:
    """Open their saver."""
    kind: Any = PostgresSaver if "://" in place else SqliteSaver
    with kind.from_conn_string(place) as saver:
        saver.setup()
        yield saver


def work(saver: BaseCheckpointSaver[Any], name: str) -> None:
    """Run a graph with tools, a question to a person, a graph inside, tasks, and a branch of the past."""
    graph, config = everything(saver), thread(name)
    graph.invoke(said("hello", "h1"), config)
    graph.invoke(Command(resume="yes"), config)
    states = list(graph.get_state_history(config))
    graph.update_state(states[-3].config, {"notes": ["branch"]}, as_node="tools")
    graph.invoke(said("again", "h2"), config)


def test_their_database_is_only_read(theirs: str) -> None:
    """Whatever is asked of it."""
    with saver_at(theirs) as saver:
        work(saver, "t1")
    with migration._opened(theirs, JsonPlusSerializer()) as source:
        assert list(source.threads()) == ["t1"]
        with pytest.raises(source.fault, match=r"read-?only"):
            source.query("DELETE FROM checkpoints", ())


def history(saver: BaseCheckpointSaver[Any], name: str) -> list[Any]:
    """Return all that is known of the states of a thread, with those of graphs inside."""
    states = everything(saver).get_state_history(thread(name))
    tuples = sorted(saver.list({"configurable": {"thread_id": name}}), key=lambda one: one.checkpoint["id"])
    inside = [(one.config["configurable"]["checkpoint_ns"], one.checkpoint, one.pending_writes) for one in tuples]
    return [(one.values, one.next, one.metadata, one.created_at, one.tasks) for one in states] + inside


def put(saver: Any, name: str, **channels: Any) -> None:
    """Save a checkpoint with some values."""
    versions = dict.fromkeys(channels, saver.get_next_version(None, None))
    checkpoint = empty_checkpoint() | {"channel_values": channels, "channel_versions": versions}
    config = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    saver.put(config, checkpoint, {"source": "loop", "step": 0}, versions)


def test_threads_go_on_where_they_were(theirs: str, memory: Store) -> None:
    """All states are the same, with writes, branches and graphs inside; a later import brings what came since."""
    with saver_at(theirs) as saver:
        for name in ("one", "two"):
            work(saver, name)
        planned = import_threads(memory, theirs, dry_run=True)
        assert memory.log.streams() == []
        assert import_threads(memory, theirs) == planned
        assert [(one.thread, one.outcome) for one in planned] == [("one", "added"), ("two", "added")]
        assert sum(one.checkpoints for one in planned) == len(list(saver.list(None)))
        for name in ("one", "two"):
            assert history(RefoldSaver(memory), name) == history(saver, name)

        everything(saver).invoke(Command(resume="more"), thread("two"))
        assert [one.outcome for one in import_threads(memory, theirs)] == ["unchanged", "extended"]
        assert history(RefoldSaver(memory), "two") == history(saver, "two")
        assert {one.outcome for one in import_threads(memory, theirs)} == {"unchanged"}
        # What was deleted here stays so.
        RefoldSaver(memory).prune(["one"])
        assert {one.outcome for one in import_threads(memory, theirs)} == {"unchanged"}
        ends = [everything(one).invoke(said("more", "h3"), thread("one")) for one in (saver, RefoldSaver(memory))]
    # The ids of questions follow from those of checkpoints, which are drawn by chance.
    assert all(end.pop("__interrupt__") for end in ends)
    assert ends[0] == ends[1]
    assert [item.id for item in memory.chat("one").items][:1] == ["h1"]
    assert memory.verify(processes=1).problems == ()


def test_what_went_on_in_both_places_is_refused(tmp_path: Path, memory: Store) -> None:
    """A branch would else become the newest state; another prefix keeps both."""
    place = str(tmp_path / "theirs.db")
    with saver_at(place) as saver:
        work(saver, "one")
        import_threads(memory, place)
        for each in (saver, RefoldSaver(memory)):
            everything(each).invoke(Command(resume="more"), thread("one"))
    events = memory.log.head("chat:one")
    (report,) = import_threads(memory, place)

    assert (report.outcome, report.reason) == (
        "refused",
        "the thread went on in both places: import it with another prefix",
    )
    assert memory.log.head("chat:one") == events
    assert [one.outcome for one in import_threads(memory, place, prefix="old/")] == ["added"]


def test_a_thread_with_a_type_that_is_not_allowed_is_left_out(theirs: str, memory: Store) -> None:
    """The others are imported; the reason names the type, in a value and in a write."""
    with saver_at(theirs) as saver:
        put(saver, "a", messages=[HumanMessage("fine", id="1")])
        put(saver, "b", n=1)
        put(saver, "b", plan=Plan(["x"]))
        put(saver, "c", n=1)
        found = saver.get_tuple(thread("c"))
        assert found is not None
        saver.put_writes(found.config, [("plan", Plan(["y"]))], "task")
    reports = import_threads(memory, theirs)

    assert [one.outcome for one in reports] == ["added", "refused", "refused"]
    assert all("Plan" in one.reason for one in reports[1:])
    assert memory.log.streams() == ["chat:a"]
    again = import_threads(memory, theirs, allowed=[ALLOWED])
    assert [one.outcome for one in again] == ["unchanged", "added", "added"]
    loaded = RefoldSaver(memory).get_tuple(thread("b"))
    assert loaded is not None
    assert loaded.checkpoint["channel_values"] == {"plan": Plan(["x"])}
    with pytest.raises(InvalidInputError, match="cannot be imported"):
        import_threads(memory, theirs, allowed=["nowhere:Plan"])


def test_an_import_that_was_broken_off_goes_on(tmp_path: Path, memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever save it ended: what is there is a beginning of the thread, and the next import does the rest."""
    place = str(tmp_path / "theirs.db")
    with saver_at(place) as saver:
        work(saver, "one")
        expected = history(saver, "one")
        # A rehearsal saves everything once.
        _, saves = _counted(monkeypatch, place, memory, last=10_000)
        for last in range(saves // 2, saves):
            with refold.open(":memory:") as store:
                assert _counted(monkeypatch, place, store, last)[0]
                import_threads(store, place)
                assert history(RefoldSaver(store), "one") == expected


def _counted(monkeypatch: pytest.MonkeyPatch, place: str, store: Store, last: int) -> tuple[bool, int]:
    """Import until so many saves were made; return whether that broke it off, and the number of saves."""
    count = 0

    def breaking(plain: Callable[..., None]) -> Callable[..., None]:
        def save(*args: Any) -> None:
            nonlocal count
            if count == last:
                raise KeyboardInterrupt
            count += 1
            plain(*args)

        return save

    with monkeypatch.context() as patched:
        for name in ("put", "put_writes"):
            patched.setattr(Thread, name, breaking(getattr(Thread, name)))
        try:
            import_threads(store, place)
        except KeyboardInterrupt:
            return True, count
    return False, count


def test_nothing_is_written_at_the_source(tmp_path: Path, memory: Store) -> None:
    """Also not into a file of an older saver, whose tables lack a column."""
    place = tmp_path / "theirs.db"
    with saver_at(str(place)) as saver:
        work(saver, "one")
    with sqlite3.connect(place) as connection:
        connection.execute("ALTER TABLE writes DROP COLUMN task_path")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = hashlib.sha256(place.read_bytes()).digest()
    (report,) = import_threads(memory, str(place))

    assert report.outcome == "added"
    assert hashlib.sha256(place.read_bytes()).digest() == before


def test_what_is_no_database_of_a_saver_is_refused(theirs: str, tmp_path: Path, memory: Store) -> None:
    """The error says what to give."""
    if "://" in theirs:
        with psycopg.connect(theirs) as connection:
            connection.execute("CREATE TABLE other (n int)")
    else:
        with sqlite3.connect(theirs) as other:
            other.execute("CREATE TABLE other (n int)")
        other.close()
        with pytest.raises(InvalidInputError, match="there is no file"):
            import_threads(memory, str(tmp_path / "missing.db"))
    with pytest.raises(InvalidInputError, match="no checkpoints of LangGraph"):
        import_threads(memory, theirs)
    assert not (tmp_path / "missing.db").exists()


def test_a_database_without_its_writes_is_refused(theirs: str, memory: Store) -> None:
    """Before anything is imported: to try again would not help."""
    with saver_at(theirs) as saver:
        put(saver, "t1")
    with migration._opened(theirs, JsonPlusSerializer()) as source:
        table = source.table
    statement: Any = f"DROP TABLE {table}"
    opened: Any = psycopg.connect(theirs) if "://" in theirs else sqlite3.connect(theirs)
    with closing(opened), opened:
        opened.execute(statement)

    with pytest.raises(InvalidInputError, match=rf"(?s)no checkpoints of LangGraph can be read there: .*{table}"):
        require_threads(theirs, allowed=())


@pytest.mark.parametrize("is_away", [True, False])
def test_a_database_that_fails_meanwhile_is_named(
    is_away: bool, theirs: str, memory: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose server is stopped: it is not the store that failed. What is damaged is not to be tried again."""
    with saver_at(theirs) as saver:
        put(saver, "t1")

    def fail(source: migration.Source) -> Any:
        raise (source.away if is_away else source.fault)("the page 7")

    monkeypatch.setattr(migration.Source, "threads", fail)
    kind, says = (StorageUnavailableError, "failed: the page 7: import again") if is_away else (
        InvalidInputError, "cannot be read: the page 7$"
    )  # fmt: skip
    with pytest.raises(kind, match=f"LangGraph's saver {says}"):
        import_threads(memory, theirs)


def test_a_server_that_is_not_there(memory: Store) -> None:
    """The error is that of the database."""
    with pytest.raises(InvalidInputError, match="the database cannot be opened"):
        import_threads(memory, "postgresql://127.0.0.1:1/none?connect_timeout=2")


def test_how_far_it_is_is_told(tmp_path: Path, memory: Store) -> None:
    """After each thread, of how many."""
    place = str(tmp_path / "theirs.db")
    with saver_at(place) as saver:
        for name in "abc":
            put(saver, name, n=1)
    told: list[tuple[int, int]] = []
    import_threads(memory, place, progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_checkpoint_that_cannot_be_read_is_named(tmp_path: Path, memory: Store) -> None:
    """One of a form that nobody knows, or one that somebody deleted meanwhile; the other threads come."""
    place = str(tmp_path / "theirs.db")
    with saver_at(place) as saver:
        for name in "ab":
            put(saver, name, n=1)
    with sqlite3.connect(place) as connection:
        connection.execute("UPDATE checkpoints SET type = 'hologram' WHERE thread_id = 'a'")
    connection.close()

    refused, added = import_threads(memory, place)
    assert (refused.outcome, added.outcome) == ("refused", "added")
    assert "of the thread 'a' cannot be read: " in str(refused.reason)
    gone = pytest.raises(InvalidInputError, match="the checkpoint x of the thread 'b' is gone: stop the programs")
    with migration._opened(place, JsonPlusSerializer()) as source, gone:
        source.load("b", "", "x")


@pytest.mark.parametrize("damage", ["type = 'hologram'", "type = NULL, value = NULL", "value = x'c1ff00'"])
def test_a_write_that_cannot_be_read_is_named(tmp_path: Path, store: Store, damage: str) -> None:
    """Its thread is left out, and the others come, also those behind it."""
    place = str(tmp_path / "theirs.db")
    with saver_at(place) as saver:
        for name in "abc":
            put(saver, name, n=1)
            saved = saver.get_tuple({"configurable": {"thread_id": name}})
            assert saved is not None
            saver.put_writes(saved.config, [("n", 2)], "task")
    with sqlite3.connect(place) as connection:
        connection.execute(f"UPDATE writes SET {damage} WHERE thread_id = 'b'")
    connection.close()

    reports = import_threads(store, place)
    assert [one.outcome for one in reports] == ["added", "refused", "added"]
    assert "a write on the checkpoint" in reports[1].reason
    assert RefoldSaver(store).threads() == ["a", "c"]


def test_a_missing_saver_is_named(tmp_path: Path, memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their package reads the formats of all its versions."""
    place = tmp_path / "theirs.db"
    place.touch()

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(migration, "import_module", missing)
    with pytest.raises(InvalidInputError, match="pip install langgraph-checkpoint-sqlite"):
        import_threads(memory, str(place))


def test_the_command(tmp_path: Path) -> None:
    """`refold import --from-langgraph`; a dry run makes no database, and a refused thread is an exit code."""
    place, target = str(tmp_path / "theirs.db"), tmp_path / "store.db"
    Path(place).touch()
    for source, says in ((place, "no checkpoints"), (f"{place}x", "no file"), (place, "cannot be imported")):
        options = ("--allow", "nowhere:X") if says.startswith("cannot") else ()
        wrong = command("import", "--from-langgraph", source, *options, db=target)
        assert (wrong.code, says in wrong.err, target.exists()) == (1, True, False), wrong.err
    with saver_at(place) as saver:
        put(saver, "a", messages=[HumanMessage("fine", id="1")])
        put(saver, "b", plan=Plan(["x"]))

    tried = command("import", "--from-langgraph", place, "--dry-run", db=target)
    assert not target.exists()
    assert (tried.code, "1 added, 1 refused" in tried.out) == (1, True)
    done = command("import", "--from-langgraph", place, db=target)
    assert done.code == 1
    assert ("nothing is copied yet" in tried.err, "nothing is copied yet" in done.err) == (True, False)
    assert done.out.endswith("store.db: 2 threads: 1 added, 1 refused; 1 checkpoint\n")
    assert "thread b" in done.err
    assert "--allow" in done.err
    done = command("import", "--from-langgraph", place, "--allow", ALLOWED, db=target)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("store.db: 2 threads: 1 added, 1 unchanged; 1 checkpoint\n")
    assert command("import", "--from-langgraph", place, "x.json", db=target).code == 2
    assert command("import", "--allow", ALLOWED, "x.json", db=target).code == 2
    assert command("import", db=target).code == 2
