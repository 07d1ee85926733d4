"""`refold export` and back by `refold import`: contexts with their past."""

import json
import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import refold as package
from refold.infrastructure.exchange import event_files, import_events
from tests.cli.running import refold, spawned
from tests.importing.transcripts import HELLO, as_lines, run, written


def events(database: Path) -> list[tuple[str, int, object]]:
    """Return every event of a database, whatever its position and time."""
    found = refold("log", "--json", db=database).json
    return sorted((one["stream"], one["version"], json.dumps(one["event"])) for one in found)


def test_a_whole_store(edited: Path, tmp_path: Path) -> None:
    """Every context comes into the other store with all its events; a second time nothing happens."""
    exported = refold("export", "-o", tmp_path / "all.jsonl", db=edited)
    imported = refold("import", tmp_path / "all.jsonl", db=tmp_path / "other.db")
    again = refold("import", tmp_path / "all.jsonl", "--format", "refold", db=tmp_path / "other.db")

    assert exported == (0, f"{tmp_path / 'all.jsonl'}: 2 contexts, 24 events\n", "")
    said = f"{tmp_path / 'other.db'}: 2 contexts"
    assert imported == (0, f"{said}: 2 added; 24 events, from {tmp_path / 'all.jsonl'}\n", "")
    assert again == (0, f"{said}: 2 unchanged, from {tmp_path / 'all.jsonl'}\n", "")
    assert events(tmp_path / "other.db") == events(edited)
    written(tmp_path / "none.jsonl", as_lines({"refold": 1, "streams": 0}, {"end": 0}))
    nothing = refold("import", tmp_path / "none.jsonl", db=tmp_path / "other.db")
    assert nothing.out == f"{tmp_path / 'other.db'}: 0 contexts, from {tmp_path / 'none.jsonl'}\n"


def test_some_contexts(edited: Path, tmp_path: Path) -> None:
    """What they name comes along, and a note says so; kinds may be left out."""
    ended = refold("export", "branch", "--output", tmp_path / "some.jsonl", db=edited)

    assert ended.out.endswith(": 2 contexts, 24 events\n")
    assert ended.err == "note: chat:support came along: the others name them\n"


def test_transcripts_beside_exports(edited: Path, tmp_path: Path) -> None:
    """Each file is told by what lies in it, and nothing is written as long as one of them cannot be taken."""
    assert refold("export", "-o", "all.jsonl", db=edited).code == 0
    written(tmp_path / "x.json", [run(0, HELLO)])
    lines = Path("all.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("cut.jsonl").write_text("".join(lines[:-1]), encoding="utf-8")

    cut = refold("import", "all.jsonl", "cut.jsonl")
    is_made = Path("refold.db").exists()
    ended = refold("import", "x.json", "all.jsonl")
    written(tmp_path / "y.json", [run(0, HELLO)])
    again = refold("import", "y.json", "cut.jsonl")

    assert (cut.code, cut.out, is_made) == (1, "", False)
    assert ended.out == (
        "refold.db: 1 context: 1 added; 1 message as 1 item in x-0\n"
        "refold.db: 2 contexts: 2 added; 24 events, from all.jsonl\n"
    )
    assert (again.code, again.out) == (1, "")
    assert "y-0" not in refold("contexts").out


def test_parquet(edited: Path, tmp_path: Path) -> None:
    """The log as a table."""
    parquet = pytest.importorskip("pyarrow.parquet")

    ended = refold("export", "--parquet", "-o", tmp_path / "log.parquet", db=edited)
    some = refold("export", "branch", "--parquet", "-o", tmp_path / "some.parquet", db=edited)

    assert ended == (0, f"{tmp_path / 'log.parquet'}: 24 events\n", "")
    assert parquet.read_table(tmp_path / "log.parquet").num_rows == 24
    assert some.out.endswith(": 3 events\n")


def test_several_files_are_read_no_oftener_than_one(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to check it and once to write it; again where a file before it brought some of its contexts."""
    for name, contexts in {"one": ["air-0.0"], "two": ["air-0.1"], "all": []}.items():
        refold("export", *contexts, "-o", tmp_path / name, db=database)
    read: list[str] = []

    def noted(path: Path) -> Iterator[Any]:
        read.append(path.name)
        return event_files.event_lines(path)

    monkeypatch.setattr(import_events, "event_lines", noted)
    for names, times in ((["one", "two"], [2, 2]), (["two", "all"], [2, 2]), (["one", "all"], [2, 3])):
        read.clear()
        other = tmp_path / f"{times[1]}.db"
        package.open(other).close()
        assert refold("import", *(tmp_path / name for name in names), db=other).code == 0
        assert [read.count(name) for name in names] == times
    assert events(other) == events(database)


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["export"], 2, "Missing option '--output' / '-o'"),
        (["export", "air-1@1", "-o", "x"], 2, "the whole past is written: leave out @V"),
        (["export", "nobody", "-o", "x"], 1, "there is no context 'nobody'"),
        (["import", "--format", "refold", "air.json"], 1, "air.json was not written by `refold export`"),
        (["import", "--format", "openai", "all.jsonl"], 1, "all.jsonl: expected OpenAI messages"),
        (["import", "all.jsonl", "--user", "mia"], 2, "all.jsonl is an export, whose contexts keep their names"),
        (["import", "cut.jsonl"], 1, "cut.jsonl is cut off: it ends after 13 events"),
    ],
)
def test_what_cannot_be_done(database: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line, no half of a file, and no database that holds nothing."""
    assert refold("export", "-o", "all.jsonl", db=database).code == 0
    Path("cut.jsonl").write_bytes(b"".join(Path("all.jsonl").read_bytes().splitlines(keepends=True)[:14]))

    ended = refold(*arguments, db=database if arguments[0] == "export" else Path("other.db"))

    assert ended.code == code
    assert ended.fault.startswith(fault)
    assert not Path("x").exists()
    assert not Path("other.db").exists()


def test_stdout(database: Path, tmp_path: Path) -> None:
    """`-o -` prints what the file would have, and the summary elsewhere; a terminal gets nothing that controls it."""
    with package.open(str(database)) as store:
        store.chat("controls").add_message("user", "\u202e\x9b31m")
    refold("export", "-o", "all.jsonl", db=database)

    ended = refold("export", "-o", "-", db=database)

    assert (ended.code, ended.out) == (0, Path("all.jsonl").read_text())
    assert ended.err == "stdout: 4 contexts, 16 events\n"
    assert "\u202e\x9b31m" in ended.out
    assert not Path("-").exists()
    shown = refold("export", "-o", "-", db=database, at_terminal=True).out
    assert shown == ended.out.replace("\u202e\x9b", r"\u202e\u009b")


def test_a_link_is_followed(database: Path) -> None:
    """The file that it names is replaced, with the same rights; the link stays."""
    Path("real.jsonl").write_text("as it was")
    Path("real.jsonl").chmod(0o600)
    Path("link").symlink_to("real.jsonl")

    assert refold("export", "-o", "link", db=database).code == 0

    assert Path("link").is_symlink()
    assert Path("real.jsonl").read_text().startswith('{"refold":')
    assert Path("real.jsonl").stat().st_mode & 0o777 == 0o600


def test_what_is_not_replaced(database: Path) -> None:
    """Only a regular file that may be written to; no folder is made, and nothing changes."""
    Path("folder").mkdir()
    os.mkfifo("pipe")
    Path("mine").write_text("as it was")
    Path("mine").chmod(0o444)
    Path("link").symlink_to("folder")
    before = {path: path.lstat().st_mtime_ns for path in Path().iterdir() if "db-" not in path.name}

    faults = {name: refold("export", "-o", name, db=database).fault for name in ("pipe", "mine", "new/x", "link")}

    assert faults["pipe"] == "pipe is no regular file: name a file"
    assert faults["mine"] == "mine is write-protected: name another file, or make it writable"
    assert faults["new/x"] == "there is no folder new: make it first"
    assert "is a directory" in faults["link"]
    assert refold("export", "-o", database, db=database).fault.endswith("export into another file")
    assert {path: path.lstat().st_mtime_ns for path in Path().iterdir() if "db-" not in path.name} == before


def test_a_full_disk(database: Path) -> None:
    """The file that was there stays, and nothing is left beside it."""
    Path("all.jsonl").write_text("as it was")

    def leave_little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))

    ended = spawned("export", "-o", "all.jsonl", "--db", database, preexec_fn=leave_little_room)

    assert ended.code == 1
    assert Path("all.jsonl").read_text() == "as it was"
    assert [path.name for path in Path().glob("all.jsonl*")] == ["all.jsonl"]


def test_documents_of_other_programs(edited: Path, tmp_path: Path) -> None:
    """A chat as it is, or as it was; what has no place is named on stderr, and the document comes back."""
    ended = refold("export", "support@3", "--as", "sharegpt", "-o", tmp_path / "one.json", db=edited)
    every = refold("export", "--as", "otel", "-o", tmp_path / "all.jsonl", db=edited)
    back = refold("import", tmp_path / "one.json", db=tmp_path / "other.db")

    assert ended.out == f"{tmp_path / 'one.json'}: 1 chat\n"
    assert ended.err.startswith("note: support: sharegpt has no place for created_at of 2 items, id of 2 items")
    assert [turn["from"] for turn in json.loads((tmp_path / "one.json").read_text())["conversations"]] == [
        "system",
        "human",
    ]
    assert every.out.endswith(": 2 chats\n")
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 2
    assert "1 added; 2 messages as 2 items" in back.out


def test_losses_of_many_chats_are_one_note(edited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts the chats with each of them."""
    monkeypatch.setattr("refold.infrastructure.cli.import_export.NAMED_MAX", 1)
    every = refold("export", "--as", "sharegpt", "-o", tmp_path / "all.jsonl", db=edited)

    lost = "sharegpt has no place for call_id in 1 chat, config update in 1 chat, created_at in 2 chats, id in 2 chats"
    assert every.err == f"note: {lost}; the export of a chat by itself says of how many items\n"


def test_a_chat_without_a_message_stops_no_export_of_all(edited: Path, tmp_path: Path) -> None:
    """It is left out, and a note says so; named by itself it is refused. Two versions of one chat are two documents."""
    with package.open(edited) as store:
        store.chat("empty")
    every = refold("export", "--as", "sharegpt", "-o", tmp_path / "all.jsonl", db=edited)
    alone = refold("export", "empty", "--as", "sharegpt", "-o", tmp_path / "one.jsonl", db=edited)
    both = refold("export", "support", "support@3", "--as", "sharegpt", "-o", tmp_path / "both.jsonl", db=edited)

    assert (every.code, every.out) == (0, f"{tmp_path / 'all.jsonl'}: 2 chats\n")
    assert "note: 1 chat left out: sharegpt has no place for anything in them" in every.err
    assert (alone.code, (tmp_path / "one.jsonl").exists()) == (1, False)
    assert both.out.endswith(": 2 chats\n")
    assert [line.partition(":")[0] for line in re.findall("note: (.*)", both.err)] == ["support", "support@3"]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [(["--parquet"], "name one of them"), (["support@1..3"], "write CTX@V, not a range")],
)
def test_what_does_not_go_with_a_document(edited: Path, tmp_path: Path, arguments: list[str], fault: str) -> None:
    """It is refused before anything is written."""
    ended = refold("export", *arguments, "--as", "atif", "-o", tmp_path / "one.json", db=edited)

    assert ended.code == 2
    assert fault in ended.err
    assert not (tmp_path / "one.json").exists()
