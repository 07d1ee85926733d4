"""A helper that folds ahead ends with the process that it helps, however that ends, and whatever program it is."""

from __future__ import annotations

import gc
import inspect
import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import refold
from refold.infrastructure.helper_process import HelperProcess
from refold.infrastructure.projecting.fold_ahead import FoldingProcess
from refold.projections.search import SEARCH
from tests.interrupts.injecting import (
    InterruptedHereError,
    Point,
    in_another_thread,
    interrupted_at,
    path_of,
    points_of,
)
from tests.support.effort import IS_DEEP

from .helped import PATIENCE_SECONDS, Watched, copied, filled, stored, stored_alone

# Where the tests may not take long, one in so many lines.
INTERRUPTS_MIN, SHARE = 60, 16
ENDS_SECONDS = 60


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A store with something of everything in it, and with a message whose pieces are far apart."""
    return filled(str(tmp_path / "store.db"))


def is_ending(point: Point) -> bool:
    """Return whether a point is where a helper is about to be ended: then it ends with this process."""
    if point.path.endswith("runner.py"):
        return "helper" in Path(point.path).read_text().splitlines()[point.line - 1]
    first = inspect.getsourcelines(FoldingProcess.end if point.path.endswith("fold_ahead.py") else HelperProcess.end)
    return first[1] <= point.line < first[1] + 4


# What an interrupted call had in hand is closed when its last reference goes.
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning", "ignore:subprocess .* still:ResourceWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_every_line(place: str, helpers: list[Watched]) -> None:
    """Whichever line of the part of this process it comes before: the next search goes on, and no helper is left."""
    expected, copy = stored_alone(place), f"{place}.interrupted"

    def search(store: refold.Store) -> None:
        assert store.search("parcel")

    with refold.open(copied(place)) as store:
        points = points_of(lambda: search(store))
    own = ("helper_process.py", "projecting/fold_ahead.py", "projecting/runner.py")
    share = random.randrange(SHARE)
    lines = [one for one in points if one.time == 1 and path_of(one.path).endswith(own)]
    wanted = [one for one in lines if IS_DEEP or one.line % SHARE == share]
    reached = 0
    for point in wanted:
        Path(copy).write_bytes(Path(place).read_bytes())
        for one in helpers:
            os.close(one.handle)
        helpers.clear()
        with refold.open(copy) as store:
            reached += interrupted_at(point, lambda: search(store), InterruptedHereError)
            gc.collect()
            for one in helpers:
                if is_ending(point):
                    one.end()
                assert select.select([one.handle], [], [], ENDS_SECONDS)[0], point
            in_another_thread(lambda: search(store))
        assert stored(copy) == expected, point
        Path(copy).unlink()

    gc.collect()
    assert reached >= INTERRUPTS_MIN // (1 if IS_DEEP else SHARE)


KILLED = """
import os, signal, sys
import refold
from refold.infrastructure.helper_process import HelperProcess
from refold.infrastructure.projecting import fold_ahead, runner
fold_ahead.cores = lambda: 2
runner.AHEAD_EVENTS_MIN, runner.PAGE_EVENTS = 1, 4
helpers, start = [], fold_ahead.FoldingProcess

def started(task):
    helpers.append(start(task))
    return helpers[-1]

def die(done, total):
    while helpers[0]._moment is None and helpers[0]._messages.empty():
        pass
    # Before it is told to begin, it waits for ever.
    if done > 24 or sys.argv[2] == "forked":
        print(helpers[0]._process.pid, flush=True)
        if sys.argv[2] == "forked" and not os.fork():
            # It holds the other end of the helper's input.
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)

fold_ahead.FoldingProcess = started
store = refold.open(sys.argv[1])
store._runner.on_page = die
store.search("parcel")
"""


@pytest.mark.parametrize("way", ["alone", "forked"])
def test_a_helper_ends_with_the_process_that_is_killed(place: str, way: str) -> None:
    """Also if a fork of that process lives on; and the next one goes on from the checkpoint."""
    expected = stored_alone(place)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, place, way], stdout=subprocess.PIPE, process_group=0
    ) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        try:
            helper = os.pidfd_open(number)
            assert select.select([helper], [], [], PATIENCE_SECONDS)[0] == [helper]
            os.close(helper)
        except ProcessLookupError:
            pass
        finally:
            os.killpg(process.pid, signal.SIGKILL)

    with refold.open(place) as store:
        begun = store._projections.checkpoint(SEARCH).events
        assert store.search("parcel")
    assert 0 < begun < int(expected["checkpoint"][0][2])
    assert stored(place) == expected


UNGUARDED = """
import multiprocessing, sys
import refold
from refold.infrastructure.helper_process import HelperProcess
from refold.infrastructure.projecting import fold_ahead, runner
fold_ahead.cores = lambda: 2
runner.AHEAD_EVENTS_MIN, runner.PAGE_EVENTS = 1, 4
after, pages = fold_ahead.FoldingProcess.after, []
print("begun", flush=True)

def counted(helper, moment, limit):
    while helper._moment is None and helper._messages.empty():
        pass
    page = after(helper, moment, limit)
    pages.append(page)
    return page

def search():
    fold_ahead.FoldingProcess.after = counted
    with refold.open(sys.argv[1]) as store:
        print(len(store.search('"on monday"')), None not in pages, len(pages) > 10, flush=True)

if sys.argv[2] == "daemon":
    process = multiprocessing.get_context("fork").Process(target=search, daemon=True)
    process.start()
    process.join()
else:
    search()
"""


@pytest.mark.parametrize("way", ["main", "daemon", "command"])
def test_programs_without_a_guard_and_daemons(place: str, tmp_path: Path, way: str) -> None:
    """A helper does not import the program that it helps, which may be no file, and a daemon process may have one."""
    program = tmp_path / "program.py"
    program.write_text(UNGUARDED)
    run = ["-c", UNGUARDED] if way == "command" else [str(program)]

    ended = subprocess.run([sys.executable, *run, place, way], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines() == ["begun", "1 True True"]
