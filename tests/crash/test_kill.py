"""Everything that `scripts/crash` throws, a few times each: what was acknowledged is there once, and all goes on."""

import os
import random
from pathlib import Path

import pytest

from .checking import whole_lines
from .endings import ENDINGS
from .kill import ASKED_MAX, Member, play

TIMES = {"kill": 8, "interrupt": 200, "backends": 6, "restore": 1, "stop-fast": 1, "stop-immediate": 1}
CASES = [(kind, database) for kind, ending in ENDINGS.items() for database in ending.databases]
# Always the same seeds in CI, new ones at a desk; the moment of a kill is chance all the same.
SEED = 1 if os.environ.get("CI") == "true" else random.SystemRandom().randrange(10**6)


# On a busy machine a writer may take several minutes, of which each shows that it goes on.
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(("kind", "database"), CASES, ids=map("-".join, CASES))
def test_thrown(kind: str, database: str, request: pytest.FixtureRequest) -> None:
    """Nothing that was acknowledged is lost, doubled or out of order; the log is whole, and the next append works."""
    server = request.getfixturevalue("durable_pg_server") if database == "postgres" else None
    print(f"seed {SEED}")

    result = play(kind, times=TIMES.get(kind, 3), seed=SEED, server=server)

    assert result.found.problems == []
    assert result.thrown >= TIMES.get(kind, 3)
    assert result.found.acknowledged > 0


class Written:
    """A process that writes a line each time it is waited for, and ends with the last one, if it ends."""

    pid, exitcode = 0, None

    def __init__(self, book: Path, lines: int, *, ends: bool) -> None:
        self._book, self._left, self._ends = book, lines, ends

    def join(self, seconds: float | None = None) -> None:
        """Write a line, and wait no longer."""
        if self._left:
            self._left -= 1
            with self._book.open("a") as file:
                file.write("{}\n")
        if not self._left and self._ends:
            self.exitcode = 0


@pytest.mark.parametrize(
    ("lines", "ends", "left"),
    [(ASKED_MAX - 1, True, 0), (2, False, 0), (9, False, 3)],
    ids=["slow", "hangs", "others go on"],
)
def test_a_slow_one_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, ends: bool, left: int
) -> None:
    """Who writes something down, or whose child does, is waited for; who does not, or never ends, hangs."""
    process = Written(tmp_path / "1-0-2.book", lines, ends=ends)
    (tmp_path / "1-01.book").write_text("of another")
    monkeypatch.setattr(os, "kill", lambda *_: None)

    problems = Member(process, None, tmp_path / "1-0").end(0)  # type: ignore[arg-type]

    assert problems == ([] if ends else ["a writer hangs:\n"])
    assert process._left == left


def test_a_line_that_was_cut_off_is_no_acknowledgment(tmp_path: Path) -> None:
    """A killed writer may leave the beginning of a line, which names nothing that anybody was told of."""
    book = tmp_path / "acknowledged"
    book.write_text("1-0.1\n1-0.2\n1-")

    assert whole_lines(book) == ["1-0.1", "1-0.2"]
    assert whole_lines(tmp_path / "not begun") == []
