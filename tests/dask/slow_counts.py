"""A projection that takes its time, and writes down which process folded how much."""

from __future__ import annotations

import os
import time
from pathlib import Path

from refold.domain.log.envelope import RecordedEvent

from ..projecting.counts import Count, Counts

PAUSE_SECONDS = 0.01


class SlowCounts(Counts):
    """Counts the events of each context, slowly; each process adds a dot to a file of its own for each event."""

    stays_in_slice = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count one more."""
        time.sleep(PAUSE_SECONDS)
        with (self.folder / str(os.getpid())).open("a") as file:
            file.write(".")
        return super().evolve(key, row, event)
