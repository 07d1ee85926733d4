"""
Work that is killed: a process that has everything loaded forks another one for each moment, which kills itself then.

A module with such work has `async def work(place, report)`. It goes on from what the database at `place` has, and
reports each number as soon as what it stands for was acknowledged. A moment is before or after an append to the log or
a part of one, or behind a report.
"""

import asyncio
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from refold.domain.chat.context import ChatContext
from refold.domain.chat.saved_states import SavedStates
from refold.infrastructure.log.sqlite.log import SqliteLog
from tests.support.project import ROOT

MOMENTS_MAX = 1_000
Report = Callable[[int], None]


def killed_at_each_moment(module: str, folder: Path) -> list[Path]:
    """Have the work of a module killed at each moment; return the databases, of which the last one has all of it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "tests.frameworks.killed", module, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.db"), key=lambda place: int(place.stem))


def reported(place: Path) -> list[int]:
    """Return what the work on a database had reported."""
    diary = place.with_suffix(".txt")
    return [int(line) for line in diary.read_text(encoding="utf-8").split()] if diary.exists() else []


def _main(name: str, folder: Path) -> None:
    work = import_module(name).work
    for moment in range(MOMENTS_MAX):
        child = os.fork()
        if not child:
            _run(work, folder / f"{moment}.db", moment)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            return
        if code != -signal.SIGKILL:
            sys.exit(f"moment {moment} ended with {code}")


def _run(work: Callable[[Path, Report], Any], place: Path, last: int) -> None:
    moments = iter(range(MOMENTS_MAX))

    def pass_by() -> None:
        if next(moments) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def report(number: int) -> None:
        with place.with_suffix(".txt").open("a", encoding="utf-8") as diary:
            diary.write(f"{number}\n")
        pass_by()

    # This process ends with the work, so nothing is put back.
    _watch(SqliteLog, "append", pass_by)
    _watch(ChatContext, "record_items", pass_by)
    _watch(SavedStates, "save", pass_by)
    try:
        asyncio.run(work(place, report))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _watch(owner: type, name: str, pass_by: Callable[[], None]) -> None:
    plain = getattr(owner, name)

    def watched(*given: Any, **named: Any) -> Any:
        pass_by()
        result = plain(*given, **named)
        pass_by()
        return result

    setattr(owner, name, watched)


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
