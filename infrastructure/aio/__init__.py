"""The async side: a store and its contexts, whose calls are awaited."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, ParamSpec

from ...domain.concurrency.threads import in_thread, in_thread_or_here

if TYPE_CHECKING:
    from ..open import open_store
    from .siblings import AsyncStore

P = ParamSpec("P")


class AsyncOpening:
    """A store that is being opened: `await` it, or use it with `async with`, which closes the store at the end."""

    def __init__(self, open_sync: Callable[[], AsyncStore]) -> None:
        self._open = open_sync
        self._opened: AsyncStore | None = None

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        return self._opened_store().__await__()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"the store is still to be opened, and has no {name!r}: write `await refold.aopen(...)`",
                name=name,
            )

    async def _opened_store(self) -> AsyncStore:
        opened: list[AsyncStore] = []
        try:
            await in_thread(lambda: opened.append(self._open()))
        except BaseException:
            # The task was cancelled, and nobody gets the store.
            for store in opened:
                await in_thread_or_here(store.sync.close)
            raise
        return opened[0]

    async def __aenter__(self) -> AsyncStore:
        self._opened = await self
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        if self._opened is not None:
            await self._opened.close()


def _opening(like: Callable[[], Callable[P, object]]) -> Callable[P, AsyncOpening]:
    # The signature is that of the sync function: only type checkers look into `like`.
    def aopen(*args: P.args, **kwargs: P.kwargs) -> AsyncOpening:
        """Open a store as `refold.open` does, with the same arguments; its calls are awaited."""
        return AsyncOpening(lambda: _opened(*args, **kwargs))

    return aopen


def _opened(*args: Any, **kwargs: Any) -> AsyncStore:
    # Imported here, in the thread: the event loop would wait for a hundred modules.
    from ..open import open_store
    from .siblings import AsyncStore

    return AsyncStore(open_store(*args, **kwargs))


aopen = _opening(lambda: open_store)
