"""
Threads: calls of sync code from async code, and threads that work in the background.

Work that waits for a disk runs in a thread with the caller's context variables, so the event loop goes on meanwhile and
`acting` applies.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..clock import REAL_SYSTEM
from ..errors import RefusedError

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor

T = TypeVar("T")
# Calls in one transaction that are awaited together.
OWN_THREADS_MAX = 4
# Calls that wait for news, such as one for each subscription.
WAITING_THREADS_MAX = 1_000
# How often a waiting task checks whether the loop of the task for which it waits was closed.
LOOK_SECONDS = 1.0
PAUSE_SECONDS = 0.001


def start_if_possible(thread: threading.Thread) -> None:
    """Start a thread. At the end of a program nothing is started: since Python 3.12 no thread starts there."""
    with suppress(RuntimeError):
        thread.start()


class NoThreadError(RuntimeError):
    """No thread can be started for a call; the call is not made."""


class NoLoopError(RefusedError, NoThreadError):
    """No event loop runs that could wait for a thread."""


def running_loop() -> asyncio.AbstractEventLoop:
    """
    Return the event loop that runs this code.

    Raises:
        NoLoopError: there is none of asyncio, as where trio runs it.
    """
    # The import of asyncio takes a third of the time of `import refold`, and sync users never need it.
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise NoLoopError(
            "what is awaited of Refold needs an event loop of asyncio, and none runs here: begin with asyncio.run(), or"
            " under trio make sync calls in threads, with trio.to_thread.run_sync()"
        ) from error


class OwnThreads:
    """Threads for the calls of one flow of control, from `begin` to `end`, and of the tasks that it starts."""

    def __init__(self) -> None:
        self.executor: Executor | None = None
        # Those that are not over.
        self.calls = set[object]()
        self._before: OwnThreads | None = None

    def begin(self) -> None:
        """Run the calls of this flow of control in threads of its own."""
        try:
            self.executor = _idle_here().pop()
        except IndexError:
            from concurrent.futures import ThreadPoolExecutor

            self.executor = ThreadPoolExecutor(OWN_THREADS_MAX, "refold-own")
        self._before = _OWN.get()
        _OWN.set(self)

    def wait_for(self, calls: Iterable[object], seconds: float) -> None:
        """Wait until these calls are over, at most `seconds`; the thread that waits must make none of them."""
        pause, deadline = threading.Event(), REAL_SYSTEM.monotonic() + seconds
        while not self.calls.isdisjoint(calls) and REAL_SYSTEM.monotonic() < deadline:
            pause.wait(PAUSE_SECONDS)

    def end(self, *, is_collected: bool = False) -> None:
        """Run calls where they ran before; `is_collected` if the garbage collector calls this."""
        _OWN.set(self._before)
        executor, self.executor = self.executor, None
        # The threads of a collected executor end with it, so that it cannot be used again.
        if executor is not None and not is_collected:
            # Starting a thread would take a third of the time of a short transaction.
            _idle_here().append(executor)


_OWN: ContextVar[OwnThreads | None] = ContextVar("refold_threads", default=None)
# By process: a child process does not have the threads of its parent.
_IDLE: dict[int, list[Executor]] = {}
_WAITING: dict[int, Executor] = {}


def _idle_here() -> list[Executor]:
    return _IDLE.setdefault(os.getpid(), [])


def _waiting_here() -> Executor:
    found = _WAITING.get(os.getpid())
    if found is None:
        from concurrent.futures import ThreadPoolExecutor

        found = _WAITING.setdefault(os.getpid(), ThreadPoolExecutor(WAITING_THREADS_MAX, "refold-waiting"))
    return found


async def in_thread(call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """
    Run `call` in a thread and return what it returns.

    A caller that is cancelled, however often, still waits for the end: the thread cannot be stopped, and must not go on
    after its caller returned.

    Raises:
        NoLoopError: no event loop of asyncio runs this.
        NoThreadError: no thread can be started.
    """
    own = _OWN.get()
    made = partial(call, *args, **kwargs)
    return await (_in_one_of(None, made) if own is None else _in_one_of(own.executor, made, own.calls))


async def in_thread_or_here(call: Callable[..., T], *args: Any) -> T:
    """Run a call that must be made, such as the end of a block: in a thread, or here if no thread can be started."""
    try:
        return await in_thread(call, *args)
    except NoThreadError:
        return call(*args)


async def in_waiting_thread(call: Callable[[], T]) -> T:
    """
    Run a call that mostly waits, as for news of a log, like `in_thread`.

    The threads of the loop are left to calls that work: there are six where a machine has two processors.
    """
    return await _in_one_of(_waiting_here(), call)


async def _in_one_of(threads: Executor | None, call: Callable[[], T], calls: set[object] | None = None) -> T:
    import asyncio

    loop = running_loop()
    # As `asyncio.to_thread` does it, but without a task around the future: that costs 20 us and a round of the loop.
    made = _Call(partial(copy_context().run, call), calls)
    work: asyncio.Future[T]
    try:
        work = loop.run_in_executor(threads, made)
    except BaseException as error:
        # An executor that could start no thread keeps the call, and would make it with a later one.
        is_made = not made.is_taken_back()
        if not isinstance(error, RuntimeError):
            raise
        if not is_made:
            raise NoThreadError(*error.args) from error
        work = asyncio.ensure_future(made.outcome())
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        with _shielded():
            while not work.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([work])
        if not work.cancelled():
            # No other code will read the result.
            work.exception()
        raise


def _shielded() -> AbstractContextManager[Any]:
    """
    Return a block that a cancelled scope of anyio does not interrupt, if the program uses that package.

    Such a scope, which servers have for each request, cancels a task in each round of the loop until the task ends.
    """
    # Another thread may be importing it now.
    scope = getattr(sys.modules.get("anyio"), "CancelScope", None)
    return nullcontext() if scope is None else scope(shield=True)


class _Call(Generic[T]):
    """A call that a thread makes, unless it is taken back before; it is among `calls` until it is over."""

    def __init__(self, call: Callable[[], T], calls: set[object] | None) -> None:
        # Whoever takes it out has it.
        self._waiting = [call]
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._calls = calls
        if calls is not None:
            calls.add(self)

    def is_taken_back(self) -> bool:
        """Return whether no thread makes the call any more; False if one has begun."""
        try:
            self._waiting.pop()
        except IndexError:
            return False
        self._note_over()
        return True

    def _note_over(self) -> None:
        if self._calls is not None:
            self._calls.discard(self)

    def __call__(self) -> T:
        call = self._waiting.pop()
        try:
            self._result.append(call())
            return self._result[0]
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._note_over()
            # The frames of the error hold no reference to it: it would live until garbage is collected.
            del self

    async def outcome(self) -> T:
        """Return what the call returns, or raise its error."""
        import asyncio

        while not self._result and self._error is None:
            await asyncio.sleep(PAUSE_SECONDS)
        if self._error is not None:
            raise self._error
        return self._result[0]


async def wait_while_checking(waiting: asyncio.Future[None], look: Callable[[], object]) -> None:
    """Wait until a future is settled, and call `look` now and then: a task whose loop was closed settles none."""
    import asyncio

    while not waiting.done():
        await asyncio.wait([waiting], timeout=LOOK_SECONDS)
        look()


def wake(waiting: asyncio.Future[None]) -> bool:
    """Let the task that waits for a future go on, in the loop of any thread; return False if that loop was closed."""
    try:
        waiting.get_loop().call_soon_threadsafe(_finish, waiting)
    except RuntimeError:
        return False
    return True


def _finish(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
