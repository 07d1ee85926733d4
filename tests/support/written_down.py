"""Answers about the made-up histories of `refold demo`, written to tests/golden/told letter by letter."""

from itertools import count

import pytest

from refold.domain.clock import RealSystem

from .project import ROOT

FOLDER = ROOT / "tests" / "golden" / "told"
# When the histories end, in seconds since 1970.
UNTIL = 1_795_000_000.0


def stop_clock(patch: pytest.MonkeyPatch) -> None:
    """
    Set the clock to an hour after the histories, for the whole test. Ids are counted, and lines are as long as in a
    pipe.
    """
    patch.delenv("COLUMNS", raising=False)
    numbers = count(1)
    patch.setattr(RealSystem, "now", lambda _: UNTIL + 3_600)
    patch.setattr(RealSystem, "new_id", lambda _, prefix: f"{prefix}{next(numbers):012x}")


def assert_as_written(name: str, text: str) -> None:
    """Compare a text with the file of this name; a file that is missing is written, and the test fails once."""
    file = FOLDER / f"{name}.txt"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        pytest.fail(f"{file.relative_to(ROOT)} was not there, and is now: read it, and run the test again")

    written = file.read_text(encoding="utf-8")
    assert text == written, f"is it meant? Then remove {file.relative_to(ROOT)}, and run it again"
