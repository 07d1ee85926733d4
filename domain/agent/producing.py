"""
Running what yields in a task of its own, so that it can be given a time limit and be stopped at any moment.

It goes on when its value has been dealt with, as a generator does: what an agent does with one value, the tool finds
done.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

T = TypeVar("T")


class ExpiredError(Exception):
    """The time that was given is over."""


async def within(seconds: float, awaitable: Awaitable[T]) -> T:
    """
    Return what `awaitable` gives.

    Raises:
        ExpiredError: it took longer. A TimeoutError of its own is another matter, and raised as it is.
    """
    import asyncio

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if limit.expired():
            raise ExpiredError from None
        raise


async def produced(start: Callable[[], AsyncGenerator[T]], seconds: float) -> AsyncGenerator[T]:
    """
    Yield the values of `start()`, which may take `seconds` in all; what its consumer does in between does not count.

    Raises:
        ExpiredError: it took longer.
    """
    import asyncio

    values: asyncio.Queue[Any] = asyncio.Queue()
    end = object()

    async def produce() -> None:
        try:
            async with aclosing(start()) as started:
                async for value in started:
                    values.put_nowait(value)
                    await values.join()
        finally:
            values.put_nowait(end)

    now = asyncio.get_running_loop().time
    producer = asyncio.create_task(produce())
    try:
        while True:
            asked = now()
            value = await within(seconds, values.get())
            seconds -= now() - asked
            if value is end:
                break
            yield value
            values.task_done()
        await producer
    finally:
        producer.cancel()
        await asyncio.wait([producer])
        # What it raised when it was stopped is nobody's business, but must have been looked at.
        if not producer.cancelled():
            producer.exception()
