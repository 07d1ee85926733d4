"""A lock for the tasks of several event loops."""

from __future__ import annotations

from ..concurrency.semaphore import Semaphore


class CrossLoopLock(Semaphore):
    """A fair lock for tasks of any event loop in any thread: a semaphore with one place."""

    def __init__(self) -> None:
        super().__init__(1)
