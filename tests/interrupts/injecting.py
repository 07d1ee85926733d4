"""Exceptions that come from nowhere, as a signal handler's do: raised before any line of Refold that a call runs."""

import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from tests.support.project import ROOT

SECONDS_MAX = 60
OURS = tuple(str(ROOT / folder) + "/" for folder in ("domain", "projections", "infrastructure", "src"))


class InterruptedHereError(BaseException):
    """What the test raises; as KeyboardInterrupt is, it is no Exception."""


class Point(NamedTuple):
    """A line of a module, and which time it is run."""

    path: str
    line: int
    time: int


def path_of(path: str) -> str:
    """Return a module's path in the project, without the links of its import package."""
    return str(Path(path).resolve().relative_to(ROOT))


def _trace(at_line: Callable[[str, int], None], wanted: Callable[[CodeType], bool]) -> Any:
    """Return a trace function that calls `at_line` before each line of the code that is wanted."""

    def in_frame(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            at_line(frame.f_code.co_filename, frame.f_lineno)
        return in_frame

    def in_call(frame: FrameType, event: str, _: object) -> Any:
        # A function without a trace function of its own runs at nearly full speed.
        return in_frame if wanted(frame.f_code) else None

    return in_call


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(OURS)


@cache
def _lines(code: CodeType) -> frozenset[int]:
    return frozenset(line for _, _, line in code.co_lines() if line is not None)


def points_of(call: Callable[[], object]) -> list[Point]:
    """Run a call, and return each line that it ran: the first time that it did, and the last."""
    times: dict[tuple[str, int], int] = {}

    def count(path: str, line: int) -> None:
        times[path, line] = times.get((path, line), 0) + 1

    before = sys.gettrace()
    sys.settrace(_trace(count, _is_ours))
    try:
        call()
    finally:
        sys.settrace(before)
    return sorted({Point(*place, time) for place, last in times.items() for time in (1, last)})


def interrupted_at(point: Point, call: Callable[[], object], error: type[BaseException]) -> bool:
    """
    Run a call, with `error` raised before the line at a point; return whether it got there, and was ended by that.
    """
    path, line, left = point

    def interrupt(in_path: str, at_line: int) -> None:
        nonlocal left
        if (in_path, at_line) == (path, line):
            left -= 1
            if left == 0:
                raise error

    before = sys.gettrace()
    sys.settrace(_trace(interrupt, lambda code: code.co_filename == path and line in _lines(code)))
    try:
        call()
    except error:
        return True
    finally:
        sys.settrace(before)
    return False


def in_another_thread(check: Callable[[], None]) -> None:
    """Run a check in a thread that holds nothing, and require that it comes to an end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            check()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS_MAX)
    assert not thread.is_alive(), "the store hangs after the interrupt"
    if raised:
        raise raised[0]


def visited(
    points: list[Point], call: Callable[[], object], check: Callable[[], None], error: type[BaseException]
) -> Iterator[Point]:
    """Interrupt a call at each of its points, check what it left, and yield the points that it got to."""
    for point in points:
        if interrupted_at(point, call, error):
            try:
                in_another_thread(check)
            except BaseException as failure:
                failure.add_note(f"interrupted before {point.path}:{point.line}, run for the {point.time}. time")
                raise
            yield point
