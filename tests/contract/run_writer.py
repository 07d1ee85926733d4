"""
Somebody who shares a run, in a process of their own: `main(PLACE, WHAT, ...)`.

`tell ROUND` prints all that a round shows, `take` takes steps and prints them until there are none, `begin COUNT`
begins sub-agents and prints their numbers, `grow COUNT [kill]` registers nodes and prints them when they are kept.
"""

import json
import os
import signal
from collections.abc import Callable

from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..domain.trajectory.runs import add, everything
from .stores import log_at


def tell(store: Store, round_number: str) -> None:
    """Print all that a round shows."""
    print(json.dumps(everything(store.run("mia", "s", int(round_number), create=False))))


def take(store: Store) -> None:
    """Take steps and print their names."""
    run = store.run("mia", "s", create=False)
    while (step := run.pop_todo("pre")) is not None:
        print(step["name"], flush=True)


def begin(store: Store, count: str) -> None:
    """Begin sub-agents and print their numbers."""
    for _ in range(int(count)):
        print(store.run("mia", "s", 0, None).sub_id, flush=True)


def grow(store: Store, count: str, end: str = "") -> None:
    """Register nodes and print their names; then perhaps be killed."""
    run = store.run("mia", "s", create=False)
    for _ in range(int(count)):
        print(add(run, "State", run.initial or "", add_pt=True), flush=True)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


WORKS: dict[str, Callable[..., None]] = {"tell": tell, "take": take, "begin": begin, "grow": grow}


def main(place: str, what: str, *arguments: str) -> None:
    """Do something with a run that exists."""
    log = log_at(place)
    WORKS[what](Store(log, MemoryProjectionStore()), *arguments)
    log.close()
