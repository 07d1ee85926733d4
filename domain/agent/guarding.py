"""Guards of a running agent or turn: it is not run a second time, and its parts are not changed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, ClassVar, TypeVar, cast

from .errors import SafeExecutionError

C = TypeVar("C", bound=Callable[..., Any])


class Guarded:
    """Something that runs, and whose public attributes stay as they are meanwhile."""

    _kind: ClassVar[str]
    _settable_while_running: ClassVar[frozenset[str]] = frozenset()
    _is_running = False

    def _why_guarded(self) -> str | None:
        """Return why attributes cannot be set now, or None."""
        return "running" if self._is_running else None

    def __setattr__(self, name: str, value: Any) -> None:
        """
        Set an attribute.

        Raises:
            SafeExecutionError: it is a public one, and this runs.
        """
        is_free = name.startswith("_") or name in self._settable_while_running
        why = None if is_free else self._why_guarded()
        if why is not None:
            raise SafeExecutionError(f"Cannot change property '{name}' while the {self._kind} is {why}.")
        super().__setattr__(name, value)


def safe_execution(method: C) -> C:
    """
    Refuse calls of an async method, or async generator, of something that runs already.

    Raises:
        SafeExecutionError: when it is called, or first asked for a value.
    """

    def refuse_if_running(owner: Any) -> None:
        if getattr(owner, "_is_running", False):
            raise SafeExecutionError(f"{method.__name__}() cannot be called: {owner!r} is running.")

    @functools.wraps(method)
    async def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_if_running(self)
        # Closed here, so that leaving early has tidied up by the time that the caller goes on.
        async with aclosing(method(self, *args, **kwargs)) as values:
            async for value in values:
                yield value

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_if_running(self)
        return method(self, *args, **kwargs)

    return cast("C", generate if inspect.isasyncgenfunction(method) else call)
