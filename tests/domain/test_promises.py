"""Results that exist already, or will: how they are waited for, and who is called when they are there."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.concurrency.locks import News
from refold.domain.concurrency.promises import SLEEP_SECONDS_MAX, Promise, Settled


class Watched(Promise[str]):
    """A promise that does not sleep, but notes how long it would have; the sleep at `wakes` finds it settled."""

    def __init__(self, wakes: int = 3, settle: Callable[[Promise[str]], object] | None = None) -> None:
        self.slept: list[float] = []
        self.looks = 0
        self._wakes, self._settled = wakes, settle
        super().__init__(self._look)

    def _look(self) -> None:
        self.looks += 1

    def sleep(self, seconds: float = SLEEP_SECONDS_MAX) -> None:
        """Note it."""
        self.slept.append(seconds)
        if len(self.slept) == self._wakes and self._settled is not None:
            self._settled(self)


def test_a_wait_sleeps_and_looks_after_its_worker() -> None:
    """After each sleep that found no result, for a tenth of a second or for what is left of the time."""
    promise = Watched(settle=lambda one: one.set_result("done"))

    assert promise.done() is False
    assert (promise.result(), promise.result(0), promise.done()) == ("done", "done", True)
    assert (promise.slept, promise.looks) == ([SLEEP_SECONDS_MAX] * 3, 2)

    late = Watched(1, lambda one: one.set_exception(KeyError("a")))
    assert isinstance(late.exception(0.05), KeyError)
    assert 0 < late.slept[0] <= 0.05
    assert late.looks == 0


@pytest.mark.parametrize("timeout", [0, -1, 1e-9])
def test_a_wait_that_takes_too_long(timeout: float) -> None:
    """It may be waited for again."""
    promise = Watched()

    with pytest.raises(TimeoutError, match="it is not settled yet"):
        promise.result(timeout)
    with pytest.raises(TimeoutError, match="it is not settled yet"):
        promise.exception(timeout)
    promise.set_result("done")
    assert (promise.result(timeout), promise.exception(timeout)) == ("done", None)


@pytest.mark.parametrize("how", ["settled", "set", "set later"])
@pytest.mark.parametrize("error", [None, KeyError("a")])
def test_what_there_is(how: str, error: KeyError | None) -> None:
    """The result or the error, and each callback once, with this object."""
    one: Any = Settled("done", error) if how == "settled" else Promise()
    seen: list[Any] = []

    def settle(when: str) -> None:
        if how == when:
            one.set_exception(error) if error else one.set_result("done")

    settle("set")
    one.add_done_callback(seen.append)
    assert len(seen) == one.done() == (how != "set later")
    settle("set later")

    assert (seen, one.done(), one.exception()) == ([one], True, error)
    if error is None:
        assert one.result() == "done"
    else:
        with pytest.raises(KeyError):
            one.result()


def test_several_threads_wait_for_one() -> None:
    """The first that wakes wakes the next."""
    promise: Promise[str] = Promise()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(promise.result()), daemon=True) for _ in range(3)]
    for one in threads:
        one.start()
    promise.set_result("done")
    for one in threads:
        one.join(10)

    assert found == ["done"] * 3
    promise.wake()
    promise.wake()


def test_news_are_counted_and_waited_for() -> None:
    """Who has not seen the last one waits for none; nobody stays in the list of those who wait."""
    news = News()
    news.wait_past(0, timeout_seconds=-1)
    news.announce()
    news.wait_past(0, timeout_seconds=60)
    threading.Timer(0.01, news.announce).start()
    news.wait_past(1, timeout_seconds=60)

    assert (news.count, len(news._sleepers)) == (2, 0)
