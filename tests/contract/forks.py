"""The contract of a store whose process is forked: each process keeps what it acknowledged, and none hangs."""

import json
import os
import signal
import subprocess
from contextlib import suppress

import pytest

import refold
from refold.domain.chat.events import MessageAdded

from .stores import Store, start_python
from .writing import everything

SECONDS_MAX = 100
# Python 3.12 warns of forks with threads; these are what is tested.
WARNINGS = "error,ignore:This process:DeprecationWarning"


class ForksContract:
    """What holds in both processes."""

    @pytest.mark.long
    @pytest.mark.parametrize(
        "case",
        [
            "parent_closes_first",
            "child_ends_first",
            "queued",
            "while_threads_write",
            "locks_are_held",
            "threads_fork",
            "in_a_fold",
            "subscribed",
            "in_a_transaction",
            "multiprocessing_workers",
            "preforked_workers",
        ],
    )
    def test_forked(self, store: Store, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """All that was acknowledged is there once, nothing else is, and the log is whole."""
        monkeypatch.setenv("PYTHONWARNINGS", WARNINGS)
        check_forked(store.place, case)


def check_forked(place: str, case: str) -> None:
    """Run a program that forks, and compare what it acknowledged with what is recorded."""
    program = start_python(
        "tests.contract.forked", case, place or ":memory:", stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        acknowledged, said = program.communicate(timeout=SECONDS_MAX)
    finally:
        # One that hangs goes with all its children: its threads would write for ever.
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)

    assert (program.returncode, said) == (0, "")
    # A store in memory is looked at by nobody but the program itself.
    if place:
        with refold.open(place) as kept:
            events = [one.event for one in everything(kept.log) if isinstance(one.event, MessageAdded)]
            assert sorted("".join(map(str, event.content)) for event in events) == json.loads(acknowledged)
            assert kept.verify().is_whole
