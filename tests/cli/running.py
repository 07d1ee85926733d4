"""Running `refold`: within this process, or as one of its own."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from refold.infrastructure.cli import main

PROGRAM = [sys.executable, "-m", "refold"]
UNWANTED = ("REFOLD_DB", "REFOLD_APP", "COLUMNS", "NO_COLOR", "PYTHONIOENCODING")


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What stdout says as JSON."""
        return json.loads(self.out)

    @property
    def fault(self) -> str:
        """The one line on stderr of a command that failed and said nothing else."""
        assert self.code in (1, 2), self
        assert self.out == ""
        assert self.err.startswith("refold: "), self.err
        assert self.err.endswith("\n")
        assert len(self.err.splitlines()) == 1, self.err
        return self.err.removeprefix("refold: ").rstrip("\n")


class _Stream(io.TextIOWrapper):
    """A text stream over memory, as sys.stdout is one over a file, or over a terminal."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Say which."""
        return self._is_terminal

    def said(self) -> str:
        """Return all that was written."""
        self.seek(0)
        return self.read()


def refold(*arguments: object, db: Path | None = None, at_terminal: bool = False) -> Ended:
    """Run a command within this process, with its stdout at a terminal or not."""
    out, err = _Stream(is_terminal=at_terminal), _Stream()
    named = ["--db", str(db)] if db is not None else []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*named, *map(str, arguments)])
    return Ended(code, out.said(), err.said())


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a process, with nothing in it that changes what is printed."""
    return {**{name: value for name, value in os.environ.items() if name not in UNWANTED}, **changes}


def spawned(*arguments: object, **options: Any) -> Ended:
    """Run a command as a process of its own, to its end."""
    settings: dict[str, Any] = {"env": environment(), "timeout": 60, "encoding": "utf-8", **options}
    done = subprocess.run([*PROGRAM, *map(str, arguments)], capture_output=True, **settings)
    return Ended(done.returncode, done.stdout, done.stderr)


def started(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a command as a process of its own."""
    settings: dict[str, Any] = {"env": environment(), **options}
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **settings,
    )
