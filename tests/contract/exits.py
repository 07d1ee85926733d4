"""The contract of a store that is left without being closed: each way to end a program, and what it keeps."""

import subprocess
import threading
from unittest.mock import Mock

import pytest

import refold

from .leaving import CONTEXTS, EACH
from .stores import Store, start_python

ALL = [str(number) for number in range(EACH)]


class ExitsContract:
    """What is kept, and what is said."""

    @pytest.mark.parametrize("how", ["return", "dropped", "close"])
    def test_queued_events_are_flushed(self, store: Store, how: str) -> None:
        """Every end that Python notices keeps all that was queued: they differ in what is left of the store."""
        said = leave(how, store.place, "enqueue")

        assert [contents(store.place, number) for number in range(CONTEXTS)] == [ALL] * CONTEXTS
        assert "refold:" not in said

    @pytest.mark.parametrize("how", ["os._exit", "SIGTERM"])
    def test_the_queue_goes_with_the_process(self, store: Store, how: str) -> None:
        """Where Python does not notice the end, each context keeps the first of its queued events."""
        leave(how, store.place, "enqueue")

        for number in range(CONTEXTS):
            kept = contents(store.place, number)
            assert kept == ALL[: len(kept)]

    @pytest.mark.parametrize("how", ["return", "SIGKILL"])
    def test_committed_events_are_there(self, store: Store, how: str) -> None:
        """Whatever the end: with durability "commit" all is there that a call returned for."""
        leave(how, store.place, "commit")

        assert [contents(store.place, number) for number in range(CONTEXTS)] == [ALL] * CONTEXTS

    @pytest.mark.parametrize(("how", "lost"), [("refused", 7), ("blocked", 5)])
    def test_what_is_lost_is_counted(self, store: Store, how: str, lost: int) -> None:
        """What was refused, or is not on disk after EXIT_SECONDS_MAX, is counted in one line."""
        said = leave(how, store.place, "enqueue")

        assert said == f"refold: {lost} queued events are not recorded: close the store, or flush it\n"

    def test_no_thread_starts(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """As at the end of a program since Python 3.12: whoever queues events commits them."""
        with refold.open(store.place, durability="enqueue") as kept:
            chat = kept.chat("c0")
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't create new thread")))
                for number in range(EACH):
                    chat.add_message("user", str(number))
                kept.flush()

            assert [str(event.version) for event in kept.log.read("chat:c0")] == [str(n + 1) for n in range(EACH + 1)]

    def test_a_child_says_nothing(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """The queue is its parent's, and so is the store, which is closed there."""
        # Python 3.12 warns of forks with threads; such a one is what is tested.
        monkeypatch.setenv("PYTHONWARNINGS", "always::ResourceWarning,ignore:This process:DeprecationWarning")

        assert leave("fork", store.place, "enqueue") == ""
        assert [contents(store.place, number) for number in range(CONTEXTS)] == [ALL] * CONTEXTS


def leave(how: str, place: str, durability: str) -> str:
    """Run a program that leaves its store, and return what it says on stderr."""
    program = start_python("tests.contract.leaving", how, place, durability, stderr=subprocess.PIPE)
    return program.communicate(timeout=100)[1]


def contents(place: str, number: int) -> list[str]:
    """Return what is recorded in a context."""
    with refold.open(place) as store:
        return [str(item.content[0]) for item in store.chat(f"c{number}").items]  # type: ignore[union-attr]
