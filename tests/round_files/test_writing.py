"""What is written, and writes that fail or are killed."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

import refold
from refold.infrastructure.files import ENDING, replace_files, replacing
from refold.infrastructure.round_files import read_round_files, write_round_files

from .rounds import busy_run

REPLACE = Path.replace


def failing(name: str, error: type[BaseException] = OSError) -> Callable[[Path, Path], Path]:
    """Return a `Path.replace` that fails where a file of that name would be put in place."""

    def replace(self: Path, target: Path) -> Path:
        if Path(target).name == name:
            raise error("no room")
        return REPLACE(self, target)

    return replace


@pytest.mark.parametrize("name", ["Run0_Sub0.json", "Run0_Sub0.meta.json"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_the_old_pair_stays(
    store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: type[BaseException]
) -> None:
    """Whichever of the two cannot be put in place, both are as they were, and nothing lies about."""
    run = busy_run(store)
    paths = write_round_files(run, tmp_path)
    before = [path.read_bytes() for path in paths]
    run.remove_node("File(f)")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", failing(name, error))
        with pytest.raises(error):
            write_round_files(run, tmp_path)

    assert [path.read_bytes() for path in paths] == before
    assert sorted(path.name for path in (tmp_path / ".context").iterdir()) == [path.name for path in sorted(paths)]


def test_the_bytes_of_both(store: refold.Store, tmp_path: Path) -> None:
    """JSON that people read and compare by line: sorted, two blanks deep, with letters as they are."""
    run = store.run("mia", "s")
    run.register_query("Où est-ce?")

    for path in write_round_files(run, tmp_path):
        written = path.read_text(encoding="utf-8")
        assert written == json.dumps(json.loads(written), indent=2, sort_keys=True, ensure_ascii=False)
    assert "Où" in (tmp_path / ".context" / "Run0_Sub0.json").read_text(encoding="utf-8")


def test_no_pair_stays_none(store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there was no file before, there is none after a failure."""
    monkeypatch.setattr(Path, "replace", failing("Run0_Sub0.meta.json"))

    with pytest.raises(OSError, match="no room"):
        write_round_files(busy_run(store), tmp_path)

    assert list((tmp_path / ".context").iterdir()) == []


def test_a_full_disk_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written is never put in place, nor is what was written before it."""
    paths = [tmp_path / "a", tmp_path / "b"]
    replace_files(dict.fromkeys(paths, b"old"))
    calls = iter([None, OSError("full")])

    def fsync(_: int) -> None:
        if (error := next(calls)) is not None:
            raise error

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="full"):
        replace_files(dict.fromkeys(paths, b"new"))

    assert [path.read_bytes() for path in paths] == [b"old", b"old"]
    assert sorted(tmp_path.iterdir()) == paths


def test_a_file_that_was_taken_for_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may remove a new file before it is locked: then another one is written."""
    lock, locked = fcntl.flock, list[IO[bytes]]()

    def locking(file: IO[bytes], how: int) -> None:
        locked.append(file)
        if len(locked) == 1:
            Path(file.name).unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", locking)
    replace_files({tmp_path / "a": b"new"})

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]
    assert [file.closed for file in locked] == [True, True]


def test_what_a_killed_writer_of_a_store_left(tmp_path: Path) -> None:
    """The files beside a new store that is gone are removed; those beside one that is being written stay."""
    left = [tmp_path / f"a.db.{'0' * 32}{ENDING}{end}" for end in ("", "-wal", "-shm")]
    for path in left:
        path.touch()
    with replacing(tmp_path / "b.db") as slow:
        beside = Path(f"{slow.name}-wal")
        beside.touch()

        replace_files({tmp_path / "c": b"new"})

        assert sorted(tmp_path.iterdir()) == sorted([Path(slow.name), beside, tmp_path / "c"])


KILLED = """
import os, signal, sys
from pathlib import Path
import refold
from refold.infrastructure.round_files import write_round_files
replace = Path.replace
def dying(self, target):
    if Path(target).name.endswith(".meta.json"):
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
Path.replace = dying
with refold.open(sys.argv[1]) as store:
    write_round_files(store.run("mia", "s/1", 0), sys.argv[2])
"""


def test_a_killed_writer_leaves_a_pair_that_can_be_read(store: refold.Store, tmp_path: Path) -> None:
    """The new graph stands beside the old pointers: both are whole, and reading tells of it."""
    run = busy_run(store)
    write_round_files(run, tmp_path)
    old = run.version
    run.remove_node("State(state00000)")

    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "refold.db", tmp_path], check=False, timeout=60)

    assert done.returncode == -signal.SIGKILL
    read = read_round_files(tmp_path, 0)
    assert "State(state00000)" not in {node.name for node in read.record.nodes}
    assert read.notes == (
        f"the pointers and messages are of version {old} of the run, and the graph of version {run.version}: "
        "writing broke off, so write both files again",
        "the pointer 'State(state00000)' was left out: there is no such node",
    )
    write_round_files(run, tmp_path)
    assert read_round_files(tmp_path, 0).notes == ()
