"""What the cases on forks and edits stand on: the lines of forks, the edits that repeat, packages that are missing."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import refold
from benchmarks import peers
from benchmarks.edits import Editor, dated_events
from benchmarks.forks import copy_streams, grow
from benchmarks.ours import Ours
from benchmarks.packed_size import packed_bytes
from benchmarks.raw_sqlite import RawSqlite
from benchmarks.workload import items


def edited(edits: int) -> refold.ChatContext:
    """Return a context of 40 items with as many random edits."""
    chat = refold.ChatContext()
    events = dated_events(items(40))
    chat.record_items(events)
    editor = Editor(chat, [event.id for event in events])
    for _ in range(edits):
        editor.edit()
    return chat


def test_each_edit_is_one_event() -> None:
    """However many edits would change nothing: as many events are made as were asked for."""
    chat = edited(60)

    assert chat.version == 1 + 40 + 60


def test_edits_are_the_same_every_time() -> None:
    """The same seed makes the same edits, of every kind."""
    kinds = [type(one.event).__name__ for one in edited(60).history(after=41)]

    assert kinds == [type(one.event).__name__ for one in edited(60).history(after=41)]
    assert set(kinds) == {"ItemsEvicted", "ItemsRestored", "ItemInserted", "MessageAdded"}


def test_a_line_of_forks_holds_the_same_items(tmp_path: Path) -> None:
    """The items are spread over root and forks; at the end of the line all of them are there, in order."""
    ours, raw = Ours(str(tmp_path / "ours.db")), RawSqlite(str(tmp_path / "raw.db"))
    ours.open()
    raw.open()

    contexts = grow(ours, 4, items(13))
    copy_streams(ours, raw, contexts)
    shown = [item.text for item in items(13)]
    read = [event for context in contexts for event in raw.load(context)]  # type: ignore[attr-defined]
    ours_read = list(ours.store.chat(contexts[-1]).recorded_items())
    ours.close()
    raw.close()

    assert len(contexts) == 5
    assert shown == [_text(event) for event in ours_read]
    assert ours_read == [event for event in read if event.__class__.__name__ not in ("Opened", "Forked")]


def _text(event: object) -> str:
    for name in ("arguments", "output"):
        if hasattr(event, name):
            return str(getattr(event, name))
    return str(event.content[0])  # type: ignore[attr-defined]


def test_holes_do_not_count_as_bytes(tmp_path: Path) -> None:
    """What was deleted takes room in the file, but not in the size that is counted; the file stays as it is."""
    path = tmp_path / "full.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE filler (data BLOB)")
        connection.execute("INSERT INTO filler VALUES (zeroblob(100000))")
        connection.execute("DELETE FROM filler")
    before = path.read_bytes()

    assert packed_bytes(str(path)) == 8_192
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["full.db"]


def test_a_missing_package_takes_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is a dependency: where one is not installed there is nothing to compare with."""
    monkeypatch.setattr(peers, "find_spec", lambda name: None)

    assert peers.seed_context(items(4)) is None
    assert peers.langchain_messages(items(4)) is None


def test_a_package_that_shares_a_root_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only another package of the same family is there, this one is missing all the same."""
    monkeypatch.setattr(peers, "find_spec", lambda name: object())

    assert peers.seed_context(items(4)) is None
