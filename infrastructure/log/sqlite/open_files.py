"""Files that are open, and whether they still lie where they were opened."""

from __future__ import annotations

import contextlib
import os
import time

# How coarse the times of a folder may be: most file systems', and those that count whole seconds, or two.
TICK_NANOSECONDS = 20_000_000
COARSE_TICK_NANOSECONDS = 2_000_000_000
SECOND_NANOSECONDS = 1_000_000_000


class OpenFiles:
    """
    Files of one folder, as they were when they were opened: whoever deletes or replaces one of them leaves a program
    that goes on writing into nothing, and SQLite does not notice.

    To look at the folder's time alone takes less than a microsecond, where a look at each file takes two. It is
    trusted once it is older than the clock of the file system is coarse: `trusted` is the time of `folder`, which is
    open, at a look that found all in order.
    """

    def __init__(self, path: str) -> None:
        self._opened = {path: _identity(path)}
        self.trusted = 0
        self.folder = -1
        with contextlib.suppress(OSError):
            # Windows opens no folders, and deletes no open files either.
            self.folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_CLOEXEC)

    def watch(self, path: str) -> None:
        """Take note of another file of the folder."""
        self._opened[path] = _identity(path)
        self.trusted = 0

    def missing(self) -> str | None:
        """Return the path of a file that is not at its place any more, if there is one."""
        changed = self._changed()
        missing = next((path for path, opened in self._opened.items() if _identity(path) != opened), None)
        tick = TICK_NANOSECONDS if changed % SECOND_NANOSECONDS else COARSE_TICK_NANOSECONDS
        if missing is None and time.time_ns() - changed > tick:
            self.trusted = changed
        return missing

    def _changed(self) -> int:
        """Return the time of the folder's last change; where it cannot be asked, now."""
        return os.fstat(self.folder).st_mtime_ns if self.folder >= 0 else time.time_ns()

    def close(self) -> None:
        """Let go of the folder."""
        folder, self.folder = self.folder, -1
        if folder >= 0:
            os.close(folder)


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another one that takes its place; None where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
