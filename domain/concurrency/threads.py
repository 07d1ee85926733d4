"""
Calls of sync code from async code: one wrapper for all work that waits for a disk.

The work runs in a thread with the caller's context variables, so the event loop goes on meanwhile and `acting` applies.
No method needs an async copy that would have to be kept in step.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
Owner = TypeVar("Owner")


async def in_thread(call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """
    Run `call` in a thread and return what it returns.

    A caller that is cancelled still waits for the end: the thread cannot be stopped, and must not work on behind it.
    """
    # The import of asyncio takes a third of the time of `import refold`, and sync users never need it.
    import asyncio

    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        if not work.cancelled():
            # No other code will read the result.
            work.exception()
        raise


def awaited(method: Callable[Concatenate[Owner, P], T]) -> Callable[Concatenate[Owner, P], Coroutine[Any, Any, T]]:
    """Return the async form of a method, for a running event loop: it takes the same arguments, and is awaited."""
    name = method.__name__

    @wraps(method)
    async def call(owner: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # Looked up by name, so that a subclass that overrides the method need not override its async form.
        result: T = await in_thread(getattr(owner, name), *args, **kwargs)
        return result

    call.__name__, call.__doc__ = f"a{name}", f"`{name}()` for a running event loop."
    call.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.a{name}"
    return call
