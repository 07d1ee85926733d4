"""Fixtures of the command line's tests."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import refold
from refold.infrastructure.importing import import_file
from tests.cli.rounds import rounds
from tests.cli.stock import stock
from tests.cli.talks import edit, talk
from tests.importing.shapes import said
from tests.importing.transcripts import TALK, run, written


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test in an empty folder of its own, with none of its user's settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("REFOLD_DB", "REFOLD_APP", "COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A file with two runs of a task, `air-0.0` and `air-0.1`, and one of another, `air-1`."""
    runs = [
        run(0, *TALK, info={"kind": "first"}),
        run(0, *TALK[:3], said("assistant", "Nothing there."), trial=1),
        run(1, said("user", "bye")),
    ]
    return written(tmp_path / "air.json", runs)


@pytest.fixture
def database(tmp_path: Path, transcript: Path) -> Path:
    """A database with the transcript in it."""
    path = tmp_path / "kept.db"
    with refold.open(path, synchronous="NORMAL") as store:
        import_file(store, transcript)
    return path


@pytest.fixture
def shut(database: Path, transcript: Path) -> Iterator[Path]:
    """A folder that nobody may write to, with the database `kept.db` and the transcript in it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(database, Path(folder, "kept.db"))
        shutil.copy(transcript, Path(folder, "air.json"))
        for path in Path(folder).iterdir():
            path.chmod(0o444)
        Path(folder).chmod(0o555)
        yield Path(folder)
        Path(folder).chmod(0o755)


@pytest.fixture
def talking(tmp_path: Path) -> Path:
    """A database with the context `support`: see `tests.cli.talks.talk`."""
    return talk(tmp_path / "talk.db")


@pytest.fixture
def edited(talking: Path) -> Path:
    """The database `talking` after every kind of edit: see `tests.cli.talks.edit`."""
    return edit(talking)


@pytest.fixture
def stocked(tmp_path: Path) -> Path:
    """A database with a queue, a pool, a window and a memory: see `tests.cli.stock.stock`."""
    path = tmp_path / "stock.db"
    stock(path)
    return path


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """A database with the runs of a session: see `tests.cli.rounds.rounds`."""
    path = tmp_path / "runs.db"
    rounds(path)
    return path
