"""Work in the background: not while somebody is busy, unless it presses; and all of it when it is closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from refold.domain.errors import StorageClosedError
from refold.infrastructure.log import background
from refold.infrastructure.log.background import BackgroundWork

from ..support.waiting import SOON_SECONDS, soon


class Housekeeping:
    """Work of some steps, for somebody who may be busy."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.beats = 0
        self.is_busy = True
        self.is_pressing = self.is_failing = False
        self.error: Exception = OSError("no room")
        self.looked = threading.Event()
        self.work = BackgroundWork(self.step, "tidying up", pulse=self.pulse, is_pressing=lambda: self.is_pressing)

    def step(self) -> bool:
        self.left -= 1
        if self.is_failing:
            raise self.error
        return self.left > 0

    def pulse(self) -> int:
        self.beats += self.is_busy
        if self.beats > 2:
            self.looked.set()
        return self.beats


@pytest.fixture
def housekeeping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Housekeeping]:
    monkeypatch.setattr(background, "QUIET_SECONDS", 0.01)
    kept = Housekeeping(steps=3)
    yield kept
    kept.work.close()


def test_it_waits_while_somebody_is_busy(housekeeping: Housekeeping) -> None:
    """It looks again and again, and does nothing."""
    housekeeping.work.wake()

    assert housekeeping.looked.wait(SOON_SECONDS)
    assert housekeeping.left == 3


def test_it_works_when_it_is_quiet(housekeeping: Housekeeping) -> None:
    """All that there is to do, once the pulse stands still."""
    housekeeping.work.wake()
    assert housekeeping.looked.wait(SOON_SECONDS)

    housekeeping.is_busy = False

    assert soon(lambda: housekeeping.left == 0)


def test_it_works_beside_others_where_it_presses(housekeeping: Housekeeping) -> None:
    """Nobody can put it off for ever."""
    housekeeping.is_pressing = True

    housekeeping.work.wake()

    assert soon(lambda: housekeeping.left == 0)


def test_closing_finishes_it(housekeeping: Housekeeping) -> None:
    """However busy somebody is."""
    housekeeping.work.wake()
    assert housekeeping.looked.wait(SOON_SECONDS)

    housekeeping.work.close()

    assert housekeeping.left == 0


def test_what_failed_is_tried_again(housekeeping: Housekeeping, caplog: pytest.LogCaptureFixture) -> None:
    """With the next call; until then the log of the process says so."""
    housekeeping.is_failing, housekeeping.is_busy = True, False
    housekeeping.work.wake()
    assert soon(lambda: "tidying up failed and will be tried again: no room" in caplog.text)

    housekeeping.is_failing = False
    housekeeping.work.wake()

    assert soon(lambda: housekeeping.left == 0)


def test_work_for_a_closed_store_is_over(housekeeping: Housekeeping, caplog: pytest.LogCaptureFixture) -> None:
    """Its thread ends, and nothing is said and nothing tried again."""
    housekeeping.error, housekeeping.is_failing = StorageClosedError("it is closed"), True
    housekeeping.is_busy = False
    housekeeping.work.wake()
    thread = housekeeping.work._thread
    assert thread is not None
    thread.join(SOON_SECONDS)
    assert not thread.is_alive()

    housekeeping.work.wake()

    assert (housekeeping.left, housekeeping.work._thread) == (2, thread)
    assert "tidying up" not in caplog.text
