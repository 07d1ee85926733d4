"""A process that takes a file in and is killed at one of its commits; started by test_taking_in_again.py."""

import os
import signal
from pathlib import Path
from typing import Any

import refold
from refold.infrastructure.exchange import import_events as taking_in
from refold.infrastructure.exchange import take_in_events


def main(place: str, path: str, commits: int) -> None:
    """Take in, a few events a commit, and die by SIGKILL where the next commit is asked for."""
    taking_in.BATCH_EVENTS = 3
    left = iter(range(commits))
    with refold.open(place) as store:
        log: Any = store.log
        append = log.append

        def counted(*args: Any, **options: Any) -> Any:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return append(*args, **options)

        log.append = counted
        print(take_in_events(log, Path(path)).events)
