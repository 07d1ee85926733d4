"""`--app`: commands about projections load those of the user's own program."""

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import refold, spawned

PROGRAM = """
import msgspec


class Row(msgspec.Struct, frozen=True):
    key: str
    events: int


class Events:
    name, version, row = "events", 1, Row

    def keys(self, event):
        return event.stream

    def evolve(self, key, row, event):
        return Row(key, (row.events if row else 0) + 1)


ONE, ALL, NONE = Events(), [Events()], 5
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program in the present folder; Python's path and modules are afterwards as they were."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "mine" / "projected.py"
    path.parent.mkdir()
    path.write_text(PROGRAM)
    # Python may have looked at the folder within the same tick of its clock.
    importlib.invalidate_caches()
    yield path
    for name in [name for name in sys.modules if name.partition(".")[0] in ("mine", "broken")]:
        del sys.modules[name]


def listed(*arguments: str, database: Path) -> list[str]:
    """Return the names of the projections."""
    return [one["name"] for one in refold("projections", "--json", *arguments, db=database).json]


@pytest.mark.parametrize("name", ["mine.projected:ONE", "mine.projected:ALL"])
def test_commands_load_it(database: Path, name: str) -> None:
    """It is listed, rebuilt, checked and verified as the store's own are."""
    assert listed("--app", name, database=database)[-1] == "events"
    assert refold("rebuild", "events", "--app", name, db=database).out.startswith("events: 3 rows of 14 events")
    assert refold("rebuild", "events", "--check", "--app", name, db=database).out.startswith("events: 3 rows, all as")
    assert "projections: nothing is wrong" in refold("verify", "--app", name, db=database).out
    assert "no projection 'events'" in refold("rebuild", "events", db=database).fault


def test_named_by_the_environment_and_by_the_project(
    database: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option wins over REFOLD_APP, which wins over the nearest pyproject.toml, whose folder is on Python's path."""
    project = Path("pyproject.toml")
    project.write_text('[tool.refold]\napp = "mine.projected:ALL"\n')
    inner = Path("inner")
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert listed(database=database)[-1] == "events"

    monkeypatch.setenv("REFOLD_APP", "mine.projected:NONE")
    assert "mine.projected:NONE is of the type int" in refold("projections", db=database).fault
    assert listed("--app", "mine.projected:ONE", database=database)[-1] == "events"


def test_workers_load_it(database: Path) -> None:
    """The installed program finds it in the present folder, and so do the processes that it starts."""
    environment = {**os.environ, "REFOLD_APP": "mine.projected:ALL"}
    ended = spawned("rebuild", "events", "--workers", "2", "--db", str(database), env=environment)

    assert (ended.code, ended.out.partition(" in ")[0]) == (0, "events: 3 rows of 14 events")


FAULTS = {
    "mine.projected": "'mine.projected' is not MODULE:NAME, as myapp.projections:ALL",
    "mine.projected:": "'mine.projected:' is not MODULE:NAME",
    "nine.projected:ALL": "there is no module 'nine' in {folder} or on Python's path",
    "mine.rejected:ALL": "there is no module 'mine.rejected' in {folder}",
    "mine.projected:EVERY": "mine.projected has no 'EVERY'",
    "mine.projected:NONE": "mine.projected:NONE is of the type int: let it be a projection, or a list of projections",
    "broken:ALL": "broken cannot be imported: broken.py:2: ZeroDivisionError: division by zero",
    "broken.needs:ALL": "broken.needs cannot be imported: broken.py:2",
    "mine.needs:ALL": "mine.needs cannot be imported: needs.py:1: ModuleNotFoundError: No module named 'absent'",
    "mine.projected:Events": "Events is a class: add an object of it, Events()",
    "": "it is empty",
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(database: Path, tmp_path: Path, name: str) -> None:
    """Each is one line that names what was wrong, and where."""
    Path("broken.py").write_text("\n1 / 0\n")
    Path("mine", "needs.py").write_text("import absent\n")
    # Python may have looked at the folder within the same tick of its clock.
    importlib.invalidate_caches()

    assert FAULTS[name].format(folder=tmp_path) in refold("projections", "--app", name, db=database).fault


def test_other_commands_do_without(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not import ends only the commands that need it."""
    monkeypatch.setenv("REFOLD_APP", "absent:ALL")

    assert refold("contexts", db=database).code == 0
    assert refold("projections", db=database).code == 2


@pytest.mark.parametrize("text", ["[tool.refold", "[tool.refold]\napp = 5", "tool = 5"])
def test_settings_that_cannot_be_read(database: Path, text: str) -> None:
    """The message names the file."""
    Path("pyproject.toml").write_text(text)

    assert "pyproject.toml" in refold("projections", db=database).fault
