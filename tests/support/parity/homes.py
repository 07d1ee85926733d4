"""The place of replayed contexts: they are detached, unless a test keeps them in a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeVar

from refold.domain.context.context import Context
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.run import Run
from refold.infrastructure.store import Store

C = TypeVar("C", bound=Context[Any])
_STORE: ContextVar[Store | None] = ContextVar("store", default=None)
_NUMBERS = count()


@contextmanager
def kept_in(store: Store) -> Iterator[None]:
    """Write contexts that are replayed in the block to a store."""
    before = _STORE.set(store)
    try:
        yield
    finally:
        _STORE.reset(before)


def kept(context: C) -> C:
    """Return a context, after writing it to the store that the test chose, if there is one."""
    store = _STORE.get()
    if store is not None:
        store.adopt(context, f"replayed {next(_NUMBERS)}")  # type: ignore[type-var]  # contexts of all kinds are adopted
    return context


def opens_runs() -> Any:
    """Return a function that opens a run of a new session, by user, session and number."""
    store = _STORE.get()
    if store is None:
        return RunFactory().run
    user = f"mia {next(_NUMBERS)}"

    def opened(_: str, session: str, number: int) -> Run:
        return store.run(user, session, number)

    return opened
