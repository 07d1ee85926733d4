"""The same commands on PostgreSQL."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from refold.infrastructure.cli.args import shown
from tests.cli.rounds import rounds
from tests.cli.running import refold
from tests.cli.stock import stock
from tests.importing.transcripts import TALK


def test_every_command_works_on_a_server(pg_url: str, transcript: Path) -> None:
    """A URL takes the place of a file."""
    assert "3 added" in refold("import", transcript, "--db", pg_url).out
    assert "3 unchanged" in refold("import", transcript, "--db", pg_url).out

    assert [row["id"] for row in refold("contexts", "--json", "--db", pg_url).json] == ["air-0.0", "air-0.1", "air-1"]
    assert refold("show", "air-0.0", "--as", "openai", "--db", pg_url).json == TALK
    assert len(refold("show", "air-0.0@-2", "--tail", 2, "--json", "--db", pg_url).json["items"]) == 2
    assert refold("diff", "air-0.0", "air-0.1", "--stat", "--json", "--db", pg_url).json["added"] == 1
    assert len(refold("log", "--json", "--db", pg_url).json) == 14
    events = refold("log", "air-0.1", "--json", "--db", pg_url).json
    after = refold("log", "air-0.1", "--after", events[2]["position"], "--json", "--db", pg_url).json
    assert after == events[3:]
    (newest,) = refold("log", "--tail", 1, "--json", "--db", pg_url).json
    assert (newest["stream"], newest["version"]) == ("chat:air-1", 2)
    stats = refold("stats", "--json", "--db", pg_url).json
    assert (stats["events"], stats["text_bytes"], stats["disk_bytes"]) == (14, 68, None)


def test_a_position_of_one_slice_is_noted(pg_url: str, transcript: Path, tmp_path: Path) -> None:
    """Where the whole store is asked for, as of a position that the log prints: other slices are left out."""
    refold("import", transcript, "--db", pg_url)
    refold("backup", tmp_path / "a.backup", "--db", pg_url)
    position = refold("log", "air-1", "--json", "--db", pg_url).json[-1]["position"]
    said = f"note: pos:{position} is a position in one slice of the log: what lies in other slices is left out"

    listed = refold("contexts", "--at", f"pos:{position}", "--json", "--db", pg_url)
    assert [row["id"] for row in listed.json] == ["air-1"]
    for ended in (
        listed,
        refold("changes", f"pos:{position}", "--db", pg_url),
        refold("moments", "then", position, "--db", pg_url),
        refold("restore", tmp_path / "a.backup", "--at", f"pos:{position}", "--overwrite", "--db", pg_url),
    ):
        assert (ended.code, ended.err.startswith(said)) == (0, True), ended
    assert refold("contexts", "--at", "2126-11-21", "--db", pg_url).err == ""


def test_an_empty_database_stays_empty(pg_url: str) -> None:
    """Whatever reads a store, or takes care of one, makes none."""
    for words in ("contexts", "stats", "verify", "rebuild --all", "seal", "vacuum", "erase --user mia --why x"):
        assert "there is no" in refold(*words.split(), "--db", pg_url).fault

    with psycopg.connect(pg_url) as connection:
        assert connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall() == []


def test_every_kind_works_on_a_server(pg_url: str) -> None:
    """Shown, changed, compared, told of and looked for."""
    stock(pg_url)

    def done(*arguments: str) -> Any:
        return refold(*arguments, "--json", "--db", pg_url).json

    assert done("queue", "add", "notes", "new")["evicted"] == [{"stream": "queue:notes", "version": 3, "id": None}]
    assert done("queue", "restore", "notes", "@2")["tokens"] == 6
    assert done("pool", "remove", "docs", "readme")["items"][0]["id"] == "readme"
    assert done("fork", "docs@4", "copy")["items"] == 2
    assert [one["id"] for one in done("merge", "docs", "copy")["dropped"]] == ["readme", "faq"]
    assert done("memory", "restore", "mia", "--all")["items"] == [{"stream": "memory:mia", "version": 2, "id": "cups"}]
    assert done("diff", "prompt@2..", "--stat")["changed"] == 1
    assert len(done("show", "prompt", "--evicted")["items"]) == 2
    assert [one["reason"] for one in done("audit", "docs", "--item", "faq")] == [None, "too long"]
    assert {hit["version"] for hit in done("memory", "search", "tea")} == {1, 3}
    assert len(done("log", "mia")) == 5


def test_runs_work_on_a_server(pg_url: str) -> None:
    """Shown, drawn, compared, and told of, node by node."""
    rounds(pg_url)

    def done(*arguments: str) -> Any:
        return refold(*arguments, "--json", "--db", pg_url).json

    assert [(one["kind"], one["items"]) for one in done("contexts")] == [("run", 4), ("run", 3), ("run", 1)]
    assert done("show", "mia/sales/1/0")["pointers"] == ["Table(orders (all))"]
    assert len(done("graph", "sales")["nodes"]) == 7
    assert done("diff", "mia/sales/0/0@4..", "--stat")["changed"] == 2
    assert [one["new"] for one in done("audit", "Table(orders (all))", "--attribute", "path")] == [
        "/orders.csv", "/new.csv", "/other.csv",
    ]  # fmt: skip
    assert len(done("audit", "mia/sales/1/0")) == 20


@pytest.mark.parametrize("command", ["contexts", "import"])
def test_a_server_that_cannot_be_reached(command: str, transcript: Path) -> None:
    """Is one line, without the password."""
    files = [transcript] if command == "import" else []
    ended = refold(command, *files, "--db", f"postgresql://mia:secret@/none?host={transcript.parent}&connect_timeout=2")

    assert ended.code == 1
    assert "secret" not in ended.fault


@pytest.mark.parametrize(
    ("location", "printed"),
    [
        ("postgresql://mia:se@cret@host:5432/db", "postgresql://mia:***@host:5432/db"),
        ("postgresql://mia@host/db?a=b", "postgresql://mia@host/db?a=b"),
        ("postgresql://host/db?user=mia&password=secret&a=b", "postgresql://host/db?user=mia&password=***&a=b"),
        ("postgresql://host/db?sslpassword=secret#a", "postgresql://host/db?sslpassword=***#a"),
        ("postgresql://host/db?a=b&scram_client_key=secret", "postgresql://host/db?a=b&scram_client_key=***"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("agents.db", "agents.db"),
        ("a\x1bb.db", "a\\x1bb.db"),
    ],
)
def test_a_password_is_never_printed(location: str, printed: str) -> None:
    """Everything else of a location is."""
    assert shown(location) == printed


def test_looking_after_a_server(pg_url: str, transcript: Path) -> None:
    """Projections, moments, what was seen, how contexts come from each other, and out and in again."""
    assert refold("import", transcript, "--db", pg_url).code == 0

    def done(*arguments: str) -> Any:
        return refold(*arguments, "--json", "--db", pg_url).json

    assert done("moments", "early")["name"] == "early"
    assert refold("fork", "air-1", "child", "--db", pg_url).code == 0
    assert [one["id"] for one in done("contexts", "--at", "early")] == ["air-0.0", "air-0.1", "air-1"]
    assert [(one["id"], one["before"]) for one in done("changes", "early")] == [("child", None)]
    assert len(done("replay", "air-0.0", "--policy", "items:1")["calls"]) == 2
    assert [one["kind"] for one in done("log", "child", "--graph")] == ["opened", "head", "forked"]
    assert refold("rebuild", "catalogue", "lineage", "--db", pg_url).code == 0
    assert done("rebuild", "catalogue", "--check")[0]["differing"] == 0
    assert {one["name"]: one["rows"] for one in done("projections")}["catalogue"] == 4
    assert done("verify")["is_whole"] is True
    assert max(map(len, refold("projections", "--db", pg_url).out.splitlines())) < 100
    assert refold("export", "-o", "all.jsonl", "--db", pg_url).code == 0
    assert ": 4 added; 15 events, " in refold("import", "all.jsonl", "--db", "copy.db").out


@pytest.mark.parametrize("damage", ["UPDATE event SET payload = '\\x00c1'", "DELETE FROM event"])
def test_a_damaged_server(pg_url: str, transcript: Path, damage: str) -> None:
    """All that can be read is shown, whatever the slices of the others."""
    assert refold("import", transcript, "--db", pg_url).code == 0
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute(f"{damage} WHERE version IN (2, 4)".encode())

    contexts, log = refold("contexts", "--json", "--db", pg_url), refold("log", "--json", "--db", pg_url)

    assert (contexts.code, log.code) == (1, 1)
    assert log.err.startswith("refold: what cannot be read is left out: ")
    versions = {stream: [one["version"] for one in log.json if one["stream"] == stream] for stream in
                ("chat:air-0.0", "chat:air-0.1", "chat:air-1")}  # fmt: skip
    assert versions["chat:air-0.0"] == versions["chat:air-0.1"]
    assert {1, 6} <= set(versions["chat:air-0.0"]) <= {1, 3, 5, 6}
    assert versions["chat:air-1"] == [1]
    assert refold("verify", "--db", pg_url).code == 1
