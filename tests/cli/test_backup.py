"""`refold backup`, and `refold restore` of a backup."""

from pathlib import Path

import pytest

import refold as package
from tests.cli.running import refold


def test_backup_and_restore(database: Path, tmp_path: Path) -> None:
    """A file is made, grows, is checked, and becomes a store again."""
    path, restored = tmp_path / "kept.backup", tmp_path / "restored.db"

    first = refold("backup", path, db=database)
    again = refold("backup", path, "--json", db=database).json
    checked = refold("backup", path, "--check", db=tmp_path / "missing.db")
    done = refold("restore", path, "--into", restored, "--at", "pos:9", "--json").json
    refused = refold("restore", path, db=restored)
    whole = refold("restore", path, "--overwrite", db=restored)

    assert first.out.startswith(f"{path}: 14 events, 14 of them new, ")
    assert (again["events"], again["added"], again["moment"]) == (14, 0, "14")
    assert f"{path}: 14 events of {database}, backed up " in checked.out
    assert (done["events"], done["moment"], done["source"]) == (9, "9", str(database))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.endswith(
        "restored.db has events: restore into a new place (--into), or overwrite them (--overwrite)\n"
    )
    assert whole.out.startswith(f"{restored}: 14 events, of {database}, backed up ")
    with package.open(database) as one, package.open(restored) as other:
        assert one.contexts() == other.contexts()


def test_a_damaged_file_is_none_of_the_stores(database: Path, tmp_path: Path) -> None:
    """Another copy of the file is what helps, and no check of the store."""
    backup, archive = tmp_path / "kept.backup", tmp_path / "cold.jsonl"
    refold("backup", backup, db=database)
    refold("archive", archive, "air-1", "--why", "cold", db=database)
    for path in (backup, archive):
        data = path.read_bytes()
        path.write_bytes(data[:-40] + bytes(40))

    for arguments in (("backup", backup, "--check"), ("restore", backup, "--overwrite"), ("unarchive", "air-1")):
        fault = refold(*arguments, db=database).fault
        assert "take another copy of the " in fault
        assert "refold verify" not in fault


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["restore", "kept.backup", "@3"], 2, "a backup is restored as a whole: name no items"),
        (["restore", "kept.backup", "--reason", "lost"], 2, "and give no reason"),
        (["restore", "air-1", "--overwrite"], 2, "there is no file air-1"),
        (["restore", "refold.db", "--into", "b.db"], 2, "refold.db is none"),
        (
            ["restore", "kept.backup", "--at", "tomorrow", "--overwrite"],
            1,
            "no moment of this store is named 'tomorrow'",
        ),
        (["restore", "kept.backup", "--into", ":memory:"], 1, "into memory"),
        (["backup", "refold.db"], 1, "is no backup of Refold's"),
        (["backup", "nowhere/a.backup"], 1, "there is no folder nowhere"),
        (["backup", "gone.backup", "--check"], 1, "there is no file gone.backup"),
        (["backup", "cut.backup"], 1, "`refold backup FILE --check` finds whole; nothing was changed\n"),
        (["backup", "cut.backup", "--check"], 1, "`refold backup FILE --check` finds whole; nothing was changed\n"),
    ],
)
def test_what_is_refused(
    arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says why; no file is made."""
    monkeypatch.chdir(tmp_path)
    with package.open("refold.db") as store:
        store.chat("air-1").add_message("user", "hello")
    refold("backup", "kept.backup")
    (tmp_path / "cut.backup").write_bytes((tmp_path / "kept.backup").read_bytes()[:-10])

    ran = refold(*arguments)

    assert (ran.code, message in ran.err) == (code, True)
    made = {path.name for path in tmp_path.iterdir()} - {"refold.db", "refold.db-wal", "refold.db-shm"}
    assert made == {"kept.backup", "cut.backup"}
