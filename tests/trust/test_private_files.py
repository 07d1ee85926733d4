"""Files that nobody but their owner may open."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import refold
from refold.domain.errors import InvalidInputError, StorageUnavailableError
from refold.infrastructure.cli import main

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
# The rights of all files of the folder are looked at before each call of a function of Python or of SQLite.
WATCHED = """
import os, sys
import refold

folder, seen = sys.argv[1], set()

def use(place, **options):
    with refold.open(place, **options) as store:
        store.chat("a").add_message("user", "x")

def look(*_):
    seen.update(oct(one.stat().st_mode & 0o777) for one in os.scandir(folder))

os.umask(0)
# What is imported for it is imported before it is watched.
use(":memory:")
refold.open(os.path.join(folder, "..", "before.db")).close()
sys.setprofile(look)
use(os.path.join(folder, "store.db"), private=True)
sys.setprofile(None)
print(*sorted(seen))
"""


def rights(folder: Path) -> dict[str, int]:
    """Return the rights of each file of a folder."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def _open_umask() -> object:
    """A process that lets everybody read what it makes."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_new_files_are_private_with_those_beside_them(tmp_path: Path) -> None:
    """The database, its WAL and its shared memory; without the option they are as the umask says."""
    for folder in ("private", "plain"):
        (tmp_path / folder).mkdir()
    with refold.open(tmp_path / "private" / "store.db", private=True) as store:
        store.chat("a").add_message("user", "hi")
        found = rights(tmp_path / "private")
    with refold.open(tmp_path / "plain" / "store.db") as store:
        store.chat("a")
        plain = rights(tmp_path / "plain")

    assert found == dict.fromkeys(("store.db", "store.db-wal", "store.db-shm"), 0o600)
    assert set(plain.values()) == {0o644}


def test_at_no_moment_may_others_read_them(tmp_path: Path) -> None:
    """Looked at before every call of a function while the store is made and written."""
    folder = tmp_path / "watched"
    folder.mkdir()

    printed = subprocess.run(
        [sys.executable, "-c", WATCHED, str(folder)], capture_output=True, text=True, check=True, timeout=120
    ).stdout

    assert printed.split() == ["0o600"]


def test_files_that_others_may_open_are_refused(tmp_path: Path) -> None:
    """The error says which and what to do; a file beside the database is looked at, too."""
    place = tmp_path / "store.db"
    refold.open(place).close()

    with pytest.raises(StorageUnavailableError, match=r"store\.db .*644.*chmod 600"):
        refold.open(place, private=True)
    place.chmod(0o600)
    (tmp_path / "store.db-wal").touch(0o644)
    with pytest.raises(StorageUnavailableError, match=r"store\.db-wal "):
        refold.open(place, private=True)
    (tmp_path / "store.db-wal").unlink()
    with refold.open(place, private=True) as store:
        assert store.contexts() == []


def test_the_environment_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs that do not say it themselves, the command line among them; a program may say no."""
    monkeypatch.setenv("REFOLD_PRIVATE", "1")
    assert main(["--db", str(tmp_path / "made.db"), "init"]) == 0
    refold.open(tmp_path / "open.db", private=False).close()
    refold.open(":memory:").close()

    with refold.open(tmp_path / "made.db") as store:
        store.chat("a")
    monkeypatch.chdir(tmp_path)
    for command in ("backup a.backup", "export -o a.refold", "restore a.backup --into again.db"):
        assert main(["--db", "made.db", *command.split()]) == 0

    found = rights(tmp_path)
    assert (found.pop("open.db"), set(found.values())) == (0o644, {0o600})
    assert {"made.db", "a.backup", "a.refold", "again.db"} <= found.keys()


def test_a_missing_file_stays_missing(tmp_path: Path) -> None:
    """Opening without creating makes no file; nor does a folder that is missing become one."""
    for place in (tmp_path / "store.db", tmp_path / "nowhere" / "store.db"):
        with pytest.raises(StorageUnavailableError):
            refold.open(place, private=True, create=place.parent != tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_only_files_are_private() -> None:
    """A server has roles instead."""
    with pytest.raises(InvalidInputError, match="roles"):
        refold.open(":memory:", private=True)
