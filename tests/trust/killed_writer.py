"""A writer that is killed before one of its steps: `main(URL, WITNESS, STEP)`."""

import os
import signal
from collections.abc import Callable
from typing import Any

import refold
from refold.infrastructure.log.group_commit import GroupCommitter
from refold.infrastructure.trust import checkpoints
from refold.infrastructure.trust.checkpoints import Checkpoints
from refold.infrastructure.trust.known_events import KnownEvents
from refold.infrastructure.trust.witness import FileWitness

# The steps of a checkpoint, in their order: each is the function before which the process is killed.
STEPS: dict[str, tuple[type, str]] = {
    "announced": (Checkpoints, "_announce"),
    "told the witness": (FileWitness, "add"),
    "noted": (KnownEvents, "note"),
    "checkpoint begun": (Checkpoints, "_write"),
    "segments stored": (KnownEvents, "keep"),
    "checkpoint handed over": (Checkpoints, "_hand_over"),
    "closed": (Checkpoints, "_announce_end"),
    "commit": (GroupCommitter, "submit"),
}
EVENTS = 530


def kill_before(cls: type, name: str, after: int) -> None:
    """Kill this process when a method is called, or called again after some calls."""
    whole: Callable[..., Any] = getattr(cls, name)
    calls = iter(range(after))

    def killed(*args: Any, **options: Any) -> Any:
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*args, **options)

    setattr(cls, name, killed)


def main(url: str, witness: str, step: str, after: str) -> None:
    """Write events, checkpoint by checkpoint, until the step comes."""
    kill_before(*STEPS[step], int(after))
    # A checkpoint as soon as there is something.
    checkpoints.INTERVAL_SECONDS = 0.0
    with refold.open(url, witness=witness) as store:
        chat = store.chat("a")
        with store.transaction():
            for number in range(EVENTS):
                chat.add_message("user", f"text {number}")
        store.flush()
        for number in range(5):
            chat.add_message("user", f"more {number}")
            store.flush()
