"""A run at one version, as the reading commands look at it."""

from __future__ import annotations

from ...domain.log.ports import Log
from ...domain.trajectory import Run


class SeenRun:
    """A run at one version."""

    def __init__(self, log: Log, run: Run, version: int) -> None:
        self.log, self.version, self.head = log, version, run.version
        self.stream = run.stream
        self.run = run.at(version)
