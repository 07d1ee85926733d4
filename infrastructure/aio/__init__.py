"""The async side: a store and its contexts, whose calls are awaited."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, ParamSpec

from ...domain.concurrency.threads import in_thread
from ..open import open_store
from ..store import Store
from .siblings import AsyncStore

P = ParamSpec("P")


class AsyncOpening:
    """A store that is being opened: `await` it, or use it with `async with`, which closes the store at the end."""

    def __init__(self, open_sync: Callable[[], Store]) -> None:
        self._open = open_sync
        self._opened: AsyncStore | None = None

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        return self._made().__await__()

    async def _made(self) -> AsyncStore:
        opened: list[Store] = []
        try:
            await in_thread(lambda: opened.append(self._open()))
        except BaseException:
            # The task was cancelled, and nobody gets the store.
            for store in opened:
                await in_thread(store.close)
            raise
        return AsyncStore(opened[0])

    async def __aenter__(self) -> AsyncStore:
        self._opened = await self
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        if self._opened is not None:
            await self._opened.close()


def _opening(open_sync: Callable[P, Store]) -> Callable[P, AsyncOpening]:
    # The signature is that of the sync function, said once.
    @wraps(open_sync)
    def aopen(*args: P.args, **kwargs: P.kwargs) -> AsyncOpening:
        return AsyncOpening(lambda: open_sync(*args, **kwargs))

    aopen.__name__ = aopen.__qualname__ = "aopen"
    return aopen


aopen = _opening(open_store)
