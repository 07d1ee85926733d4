"""Databases that are missing, foreign, damaged, locked, read-only or full: one line each, and no harm."""

import base64
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import refold as package
from tests.cli.running import Ended, environment, refold, spawned
from tests.importing.transcripts import HELLO, run, written
from tests.support.project import ROOT
from tests.verifying.damaging import sql

READING = [
    ["contexts"],
    ["show", "air-1"],
    ["log"],
    ["log", "--graph"],
    ["diff", "air-1@1..2"],
    ["changes", "pos:1"],
    ["replay", "air-0.0", "--policy", "all"],
    ["stats"],
]
LISTING = [
    ["projections"],
    ["rebuild", "catalogue", "--check"],
    ["hold"],
    ["archive"],
    ["retain"],
    ["erase", "--context", "air-1", "--why", "x"],
]
CHANGING = [
    ["fork", "air-1", "new"],
    ["merge", "air-0.0", "air-1"],
    ["evict", "air-1", "@2"],
    ["restore", "air-1"],
    ["pin", "air-1", "@2"],
    ["summarize", "air-1", "--undo"],
]


@pytest.mark.parametrize("arguments", [*READING, *CHANGING])
def test_a_missing_database_is_not_made(arguments: list[str], tmp_path: Path) -> None:
    """It is named, and how to name another; only an import makes one."""
    path = tmp_path / "none.db"
    assert refold(*arguments, db=path).fault.startswith(f"there is no database {path}: ")
    assert "--db or REFOLD_DB names another" in refold(*arguments).fault
    assert refold(*arguments, db=tmp_path / "no" / "none.db").code == 1

    assert list(tmp_path.glob("**/*.db*")) == []


def tables_of(path: Path) -> list[tuple[str, str]]:
    """Return what is defined in an SQLite file."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT name, sql FROM sqlite_schema").fetchall()
    connection.close()
    return found


@pytest.mark.parametrize("arguments", [*READING, *CHANGING, ["import", "x.json"]])
def test_what_is_no_database(arguments: list[str], tmp_path: Path) -> None:
    """A folder, a text, another program's database: named, and left as they are."""
    written(tmp_path / "x.json", [HELLO])
    text, foreign = written(tmp_path / "text.db", "hello " * 1000), tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = text.read_bytes(), tables_of(foreign)

    assert refold(*arguments, db=tmp_path).fault == f"{tmp_path} is a folder: name a file in it"
    assert "text.db" in refold(*arguments, db=text).fault
    assert "foreign.db is a database of another program" in refold(*arguments, db=foreign).fault
    assert (text.read_bytes(), tables_of(foreign)) == before


@pytest.mark.parametrize("arguments", [*READING, *CHANGING])
def test_an_empty_file_stays_empty(arguments: list[str], tmp_path: Path) -> None:
    """Only an import makes a database of it."""
    path = written(tmp_path / "empty.db", "")

    assert "empty.db is empty" in refold(*arguments, db=path).fault
    assert path.stat().st_size == 0


def test_an_import_fills_an_empty_file(tmp_path: Path) -> None:
    """Some make the file first."""
    path = written(tmp_path / "empty.db", "")

    assert refold("import", written(tmp_path / "x.json", [HELLO]), db=path).code == 0
    assert "hello" in refold("show", "x-1", db=path).out


@pytest.mark.parametrize("arguments", [["show", "air-0.0"], ["log"], ["diff", "air-0.0@.."]])
def test_damage_is_one_line(database: Path, arguments: list[str]) -> None:
    """Wherever bytes have changed, there is an answer or a sentence, never a traceback."""
    whole = database.read_bytes()
    codes = set()
    for start in range(0, len(whole), len(whole) // 60):
        database.write_bytes(whole[:start] + b"\xa5" * 64 + whole[start + 64 :])
        ended = refold(*arguments, db=database)
        codes.add(ended.code)
        assert ended.code in (0, 1)
        assert len(ended.err.splitlines()) == ended.code, ended.err

    assert codes == {0, 1}


@pytest.mark.parametrize("arguments", [*READING, ["import", "air.json"]])
def test_a_database_cut_short(database: Path, arguments: list[str]) -> None:
    """Half a file is damaged."""
    database.write_bytes(database.read_bytes()[: database.stat().st_size // 2])

    assert str(database) in refold(*arguments, db=database).fault or arguments == ["contexts"]


@pytest.fixture
def locked(database: Path, brief_waits: None) -> Iterator[Path]:
    """The database while another program writes to it and does not end; we wait for it a moment only."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield database
    connection.execute("ROLLBACK")
    connection.close()


@pytest.mark.parametrize("arguments", READING)
def test_a_writer_stops_no_reader(locked: Path, arguments: list[str]) -> None:
    """Not even where rows would have to be brought up to date."""
    ended = refold(*arguments, db=locked)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out


@pytest.mark.parametrize("arguments", [one for one in CHANGING if one[0] not in ("restore", "summarize")])
def test_a_writer_stops_a_change(locked: Path, arguments: list[str]) -> None:
    """For a bounded time; then it says so in one line."""
    assert refold(*arguments, db=locked).fault.startswith(f"{locked} stayed locked by another process")


def test_a_writer_stops_another(locked: Path, tmp_path: Path) -> None:
    """For a bounded time; then the import says so, and has written nothing."""
    path = written(tmp_path / "x.json", [HELLO])

    assert refold("import", path, db=locked).fault.startswith(f"{locked} stayed locked by another process")


# Run as a user who may write nothing, once everything that is needed has been imported and opened.
AS_NOBODY = """
import json, os, sys
from tests.cli.running import refold
warm, commands = sys.argv[1], json.loads(sys.argv[2])
for arguments in commands:
    refold(*arguments, db=warm)
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print(json.dumps([refold(*arguments, db="kept.db") for arguments in commands]))
"""


def as_nobody(database: Path, shut: Path, *commands: list[str]) -> list[Ended]:
    """Run commands in the shut folder."""
    program = [sys.executable, "-c", AS_NOBODY, str(database), json.dumps(commands)]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(program, cwd=shut, env=environment(PYTHONPATH=paths), capture_output=True, encoding="utf-8")
    return [Ended(*one) for one in json.loads(done.stdout)]


@pytest.mark.long
def test_reading_needs_no_right_to_write(database: Path, shut: Path) -> None:
    """File and folder may be read-only."""
    commands = [*READING, *LISTING]
    every = as_nobody(database, shut, *([*arguments, "--json"] for arguments in commands))

    assert [(ended.code, ended.err) for ended in every] == [(0, "")] * len(commands)
    silent = [arguments[0] for arguments, ended in zip(commands, every, strict=True) if not ended.json]
    assert silent == ["hold", "archive"]
    assert sorted(path.name for path in shut.iterdir()) == ["air.json", "kept.db"]


def test_projections_are_those_that_are_stored(database: Path, shut: Path) -> None:
    """Although a store that is only read makes rows of its own."""
    refold("contexts", db=database)
    shutil.copy(database, shut / "kept.db")

    [ended] = as_nobody(database, shut, ["projections", "--json"])
    listed = {one["name"]: one for one in ended.json}
    assert (listed["catalogue"]["rows"], listed["catalogue"]["behind"], listed["search"]["rows"]) == (3, 0, 0)


def test_keys_are_listed_without_it(tmp_path: Path, shut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many data keys a master key wraps is read, too."""
    monkeypatch.setenv("REFOLD_MASTER_KEYS", f"m1:{base64.b64encode(bytes(32)).decode()}")
    keyed = tmp_path / "keyed.db"
    package.open(keyed, keys=package.KeyEnvironment()).close()
    shutil.copy(keyed, shut / "kept.db")

    [ended] = as_nobody(keyed, shut, ["keys", "list", "--json"])
    assert ended.json == {"masters": {"m1": 1}, "destroyed": 0}
    # As any other object: several lines with --json, one with --jsonl.
    assert [len(refold("keys", "list", form, db=keyed).out.splitlines()) for form in ("--json", "--jsonl")] == [6, 1]


def test_writing_needs_it(database: Path, shut: Path) -> None:
    """The import says which rights to look at."""
    every = as_nobody(database, shut, ["import", "air.json", "--prefix", "new"], ["evict", "air-1", "@2"])
    (shut / "kept.db").rename(shut / "other.db")
    [made_anew] = as_nobody(database, shut, ["import", "air.json"])
    assert made_anew.fault == "kept.db cannot be written: check the rights of the file and its folder"
    (shut / "other.db").rename(shut / "kept.db")

    # SQLite opens a file of the newest version without writing to it, where its folder can be written.
    shut.chmod(0o777)
    [made_ready] = as_nobody(database, shut, ["init"])
    assert {ended.fault for ended in (*every, made_ready)} == {
        "kept.db cannot be written: check the rights of the file and its folder"
    }


@pytest.mark.long
@pytest.mark.parametrize("room", [100_000, 700_000, 4_300_000])
def test_a_full_disk(tmp_path: Path, room: int) -> None:
    """The import ends with one line; what was written is whole, and the rest comes with the next import."""
    texts = [os.urandom(3_000).hex() for _ in range(25)]
    runs = [run(number, *({**HELLO, "content": f"{number} {text}"} for text in texts)) for number in range(80)]
    path = written(tmp_path / "x.json", runs)

    def leave_little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    ended = spawned("import", path, preexec_fn=leave_little_room)
    assert ended.code == 1
    assert "refold.db" in ended.fault

    before = refold("contexts", "--json")
    there = {row["id"]: row["items"] for row in json.loads(before.out or "[]")}
    assert {*there.values()} <= {25}
    assert len(there) < 80
    assert refold("import", path).out.startswith(f"refold.db: 80 contexts: {80 - len(there)} added")
    assert refold("stats", "--json").json["events"] == 80 * 26


def test_a_database_of_no_known_shape(database: Path) -> None:
    """It bears Refold's mark, and lacks its tables."""
    with sqlite3.connect(database) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            if not name.startswith("sqlite_"):
                connection.execute(f"DROP TABLE {name}")
    connection.close()

    for arguments in (*READING, *CHANGING, ["import", "air.json"]):
        assert refold(*arguments, db=database).code == 1
        assert len(refold(*arguments, db=database).err.splitlines()) == 1


def test_a_server_that_is_not_there() -> None:
    """A URL is a server's address."""
    assert refold("contexts", "--db", "mysql://here").fault.startswith("a location that begins with 'mysql' is none")


def test_a_store_that_is_open(database: Path) -> None:
    """Another process may have it open, and be in the middle of its work."""
    with package.open(database) as store:
        store.chat("now").add_message("user", "news")

        assert "news" in refold("show", "now", db=database).out
        assert '"now"' in refold("contexts", "--json", db=database).out


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET payload = 'text', meta = 7",
        "UPDATE event SET recorded_at = 'never'",
        "UPDATE event SET version = 9000000000000000000 WHERE position = (SELECT max(position) FROM event)",
        "UPDATE stream SET id = cast(x'ff' AS TEXT) WHERE key = 1",
        "DELETE FROM event WHERE version = 1",
        "DELETE FROM stream",
        "DROP TABLE part",
        "UPDATE checkpoint SET moment = 'nowhere'",
        "UPDATE view_catalogue SET items = 'many'",
        "DROP TABLE view_search_words",
    ],
)
def test_stored_values_that_are_wrong(database: Path, statement: str) -> None:
    """Whatever is asked or changed ends with an answer, or with a line that says what is wrong, never a traceback."""
    with package.open(database) as store:
        assert store.contexts()
        assert not store.search("nothing like it")
    with sqlite3.connect(database) as connection:
        connection.execute(statement)
    connection.close()

    failed = 0
    for arguments in (*READING, *CHANGING, ["search", "hello"], ["audit", "air-1"], ["projections"]):
        ended = refold(*arguments, db=database)
        failed += ended.code
        assert ended.code in (0, 1), (arguments, ended.err)
        assert ended.code == 0 or "refold: " in ended.err
    assert (failed > 0, refold("verify", db=database).code) == (True, 1)


def test_the_versions_before_a_damage(tmp_path: Path) -> None:
    """They are shown, by their number; which names there are is not known, and the newest version is refused."""
    path = tmp_path / "store.db"
    with package.open(path) as store:
        notes = store.memory().scope("mia")
        for value in ("green", "black", "white"):
            notes.put(package.MemoryRecord(scope="mia", key="tea", value=value))
    sql(path, "UPDATE event SET payload = CAST(payload || x'00' AS BLOB) WHERE version = 3")

    shown = refold("show", "memory:mia@2", "--json", db=path)
    assert [one["item"]["value"] for one in shown.json["items"]] == ["black"]
    for later in ("memory:mia", "memory:mia@first"):
        assert refold("show", later, db=path).fault.startswith("event memory:mia@3 is damaged")
