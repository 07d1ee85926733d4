"""
Measures work in calls or rows instead of seconds, so that it is the same on a busy machine. Also says how much work
tests do, and lets other code act in the middle of a call.
"""

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import refold
from refold.domain.log.ports import Page

# Whether tests run for hours, as in scripts/soak, with more random examples.
IS_DEEP = os.environ.get("REFOLD_DEEP") == "1"


class CountedLock:
    """A lock that is always free, and counts how often it is taken."""

    def __init__(self) -> None:
        self.taken = 0

    def __enter__(self) -> None:
        self.taken += 1

    def __exit__(self, *_: object) -> None:
        pass


def calls_of(work: Callable[[], Any]) -> int:
    """Return how many functions `work` calls, those of the interpreter included."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def rows_read(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets each row of a projection that is read by the beginning of its key, from now on."""
    rows_under = store._projections.rows_under
    read: list[Any] = []

    def noted(*asked: Any) -> list[Any]:
        found = rows_under(*asked)
        read.extend(found)
        return found

    monkeypatch.setattr(store._projections, "rows_under", noted)
    return read


def pages_read(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of events of each page of the log that is read, from now on."""
    read_all, sizes = store.log.read_all, list[int]()

    def noted(**asked: Any) -> Page:
        page = read_all(**asked)
        sizes.append(len(page.events))
        return page

    monkeypatch.setattr(store.log, "read_all", noted)
    return sizes


def projections_counted(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each projection whose rows are counted, from now on."""
    rows, counted = type(store._projections), list[str]()
    count = rows.count

    def noted(kept: Any, projection: Any) -> int:
        counted.append(projection.name)
        return count(kept, projection)

    monkeypatch.setattr(rows, "count", noted)
    return counted


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Do what another thread might do, whenever a step over a weak mapping ends in this one."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code.co_filename == weakref.__file__:
            work()

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
