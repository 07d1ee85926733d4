"""Waiting for portraits, in a loop and without one, and not waiting for them: what ends takes its tasks along."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref

import pytest

from refold.domain.errors import InvalidInputError
from refold.domain.trajectory.descriptions import THREAD_NAME

from .finds import WRITTEN, Portrayer, describe, description, run_with_finds, told


def test_a_timeout_leaves_the_rest_running() -> None:
    """It says which; they go on, and are not begun again."""
    run = run_with_finds(2)
    portrayer = Portrayer(is_open=False)
    run.portray_with(portrayer)

    async def work() -> None:
        run.profiling()
        assert await run.wait_portraits(0.01) == ["Knowledge(k0)", "Knowledge(k1)"]
        assert run.profiling() == 0
        portrayer.is_open = True
        assert await run.wait_portraits() == []

    asyncio.run(work())
    assert (portrayer.asked, description(run, "k1")) == (2, "A portrait of k1.")


def test_a_timeout_without_a_loop() -> None:
    """The same; a live view waits for the same portraits."""
    run = run_with_finds(1)
    portrayer = Portrayer(is_open=False)
    run.portray_with(portrayer)
    run.profiling()

    assert run.finish_portraits(0.01) == run.readonly.finish_portraits(0.01) == ["Knowledge(k0)"]
    portrayer.is_open = True
    assert (run.finish_portraits(20), description(run)) == ([], "A portrait of k0.")


def test_who_stops_waiting_stops_nothing() -> None:
    """A cancelled waiter leaves the tasks as they are."""
    run = run_with_finds(1)
    portrayer = Portrayer(is_open=False)
    run.portray_with(portrayer)

    async def work() -> None:
        run.profiling()
        waiter = asyncio.create_task(run.wait_portraits())
        await asyncio.sleep(0.01)
        waiter.cancel()
        await asyncio.wait([waiter])
        portrayer.is_open = True
        assert waiter.cancelled()
        assert await run.wait_portraits() == []

    asyncio.run(work())
    assert told(run) == WRITTEN


def test_a_loop_that_ends_takes_its_tasks_along() -> None:
    """Nothing is recorded as failed; the nodes can be begun again, elsewhere."""
    run = run_with_finds(3)
    run.portray_with(Portrayer(is_open=False), limit=2)

    async def leave() -> None:
        run.profiling()
        await run.wait_portraits(0.05)

    asyncio.run(leave())

    assert set(told(run)) == {"PortraitRequested"}
    assert describe(run, lambda prompt: "d") == 3
    assert told(run).count("PortraitWritten") == 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_is_closed_over_their_heads() -> None:
    """Its tasks will never end, so nobody waits for them, and they hold no place."""
    run = run_with_finds(2)
    run.portray_with(Portrayer(is_open=False), limit=1)
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        run.profiling()
        await asyncio.sleep(0.05)

    loop.run_until_complete(leave())
    loop.close()

    assert run.finish_portraits() == []
    assert describe(run, lambda prompt: "d", limit=1) == 2
    gc.collect()


def test_waiting_for_oneself() -> None:
    """A loop cannot stand still until its own tasks are done."""
    run = run_with_finds(1)
    run.portray_with(Portrayer())

    async def work() -> None:
        run.profiling()
        with pytest.raises(InvalidInputError, match="wait_portraits"):
            run.finish_portraits()
        await run.wait_portraits()

    asyncio.run(work())
    assert told(run) == WRITTEN


def test_a_slow_function_does_not_hold_up_the_loop() -> None:
    """It is called in a thread, which the end of the loop does not wait for."""
    run, done = run_with_finds(1), threading.Event()

    def slow(prompt: str) -> str:
        done.wait(60)
        return "d"

    async def work() -> None:
        run.portray_with(slow)
        run.profiling()
        assert await run.wait_portraits(0.05) == ["Knowledge(k0)"]

    asyncio.run(work())
    done.set()
    assert told(run) == ["PortraitRequested"]


def test_an_interpreter_that_ends() -> None:
    """A model that never answers does not keep it, and nothing is complained of."""
    code = (
        "import time\nfrom tests.domain.trajectory.finds import run_with_finds\nrun = run_with_finds(9)\n"
        "run.portray_with(lambda prompt: time.sleep(600))\nrun.profiling()\nprint(len(run.finish_portraits(0.1)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert (done.stdout, done.stderr) == ("9\n", "")


def test_a_run_that_nobody_holds() -> None:
    """It is gone at once, and its thread with it."""
    run = run_with_finds(1)
    before = threading.enumerate()
    describe(run, Portrayer())
    (thread,) = [one for one in threading.enumerate() if one.name == THREAD_NAME and one not in before]
    seen = weakref.ref(run)
    del run
    gc.collect()
    thread.join(20)

    assert (seen(), thread.is_alive()) == (None, False)
