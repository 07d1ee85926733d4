"""Erasures, archives and rotations that are killed at each of their steps: done, or not begun, after the next start."""

import json
from pathlib import Path

import pytest

from tests.contract.stores import start_python
from tests.support.effort import IS_DEEP


def left_by(what: str, folder: Path | str) -> list[str]:
    """Return what tests.trust.kills found after each step."""
    with start_python("tests.trust.kills", what, str(folder)) as process:
        printed, _ = process.communicate()
    assert process.returncode == 0, printed
    found: list[str] = json.loads(printed)
    return found


@pytest.mark.parametrize("what", ["plain", "sealed", "postgres-sealed", *(["postgres"] if IS_DEEP else [])])
def test_an_erasure_that_is_killed(what: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The text is there, whole, or gone from every byte of the store: the next process that opens it finishes."""
    is_server = what.startswith("postgres")
    found = left_by(what, request.getfixturevalue("ready_pg_url") if is_server else tmp_path)

    assert found == ["kept"] * found.count("kept") + ["erased"] * found.count("erased")
    # One transaction takes the texts out of the log.
    assert found.count("kept") > 0
    assert found.count("erased") > 4


@pytest.mark.parametrize("what", ["archive-sealed", *(["archive-plain"] if IS_DEEP else [])])
def test_an_archive_that_is_killed(what: str, tmp_path: Path) -> None:
    """The text is in the store alone, or in the file alone; it is never lost, and comes back."""
    found = left_by(what, tmp_path)

    assert found == ["kept"] * found.count("kept") + ["erased"] * found.count("erased")
    # The file is written before, and one transaction takes the texts out of the log.
    assert found.count("kept") > 6
    assert found.count("erased") > 4


@pytest.mark.parametrize("what", ["unarchive-plain", *(["unarchive-sealed"] if IS_DEEP else [])])
def test_what_comes_back_and_is_killed(what: str, tmp_path: Path) -> None:
    """The text is in the file, or in both."""
    found = left_by(what, tmp_path)

    assert found == ["erased"] * found.count("erased") + ["kept"] * found.count("kept")
    assert found.count("erased") > 0
    assert found.count("kept") > 4


def test_a_rotation_that_is_killed(tmp_path: Path) -> None:
    """Every key can be opened with the old master or the new one, and the next rotation does the rest."""
    found = left_by("rotations", tmp_path)

    # A key is wrapped with a new master, and stays as it is in between.
    assert found[0] == "m1"
    assert found[-1] == "m2"
    assert "m1 and m2" in found
