"""`refold stats`: how much there is."""

from pathlib import Path

import refold as package
from tests.cli.running import refold
from tests.verifying.damaging import sql


def test_the_shape_of_the_json(database: Path) -> None:
    """Numbers, times, and the files on disk with all that lies beside the database."""
    stats = refold("stats", "--json", db=database).json
    first, last = stats.pop("first_at"), stats.pop("last_at")
    disk, files = stats.pop("disk_bytes"), stats.pop("files")
    assert stats.pop("free_bytes") == 0

    assert stats == {
        "database": str(database),
        "contexts": 3,
        "items": 11,
        "tokens": 80,
        "events": 14,
        "events_by_type": {
            "chat.function_called.v1": 2,
            "chat.function_returned.v1": 2,
            "chat.message_added.v1": 7,
            "chat.opened.v1": 3,
        },
        "text_bytes": 2 * (5 + 11 + 2 + 5) + 5 + 14 + 3,
    }
    assert first <= last
    assert files["kept.db"] == database.stat().st_size
    assert disk == sum(files.values())


def test_bytes_of_text_are_those_of_utf8(tmp_path: Path) -> None:
    """Parts, arguments, outputs, instructions and reasons count; names and ids do not."""
    with package.open(tmp_path / "x.db") as store:
        chat = store.chat("x")
        chat.add_message("user", ["ä", "漢字", package.ImageContent(image="https://example.com")])
        chat.add_function_call("look_up", "{}", call_id="long enough")
        chat.add_function_output("look_up", "\U0001f600", "long enough")
        chat.add_handoff("billing", reason="why")
        chat.add_config_update("Be brief.")

    assert refold("stats", "--json", db=tmp_path / "x.db").json["text_bytes"] == 2 + 6 + 2 + 4 + 3 + 9


def test_for_people(database: Path) -> None:
    """A short table, then the events by type, most of them first."""
    lines = refold("stats", db=database).out.splitlines()

    assert [line.split()[0] for line in lines[:8]] == [
        "database", "contexts", "items", "events", "first", "last", "text", "on",
    ]  # fmt: skip
    assert lines[2:4] == ["items     11, about 80 tokens", "events    14"]
    assert lines[9:] == [
        "7  chat.message_added.v1",
        "3  chat.opened.v1",
        "2  chat.function_called.v1",
        "2  chat.function_returned.v1",
    ]


def test_an_empty_database(tmp_path: Path) -> None:
    """Nothing counts as nothing."""
    path = tmp_path / "empty.db"
    package.open(path).close()
    stats = refold("stats", "--json", db=path).json

    assert (stats["events"], stats["first_at"], stats["events_by_type"]) == (0, None, {})
    assert refold("stats", db=path).code == 0


def test_free_room_is_told(database: Path) -> None:
    """With the command that gives it back."""
    sql(database, "CREATE TABLE large AS SELECT zeroblob(100000) AS bytes")
    sql(database, "DROP TABLE large")

    (line,) = [line for line in refold("stats", db=database).out.splitlines() if line.startswith("free")]
    assert line.endswith("KiB, which `refold vacuum` gives back")
