"""
What can go wrong with hooks, in the tree of `domain/errors.py` and under the seed's built-in errors.

    RefusedError
    ├── InvalidInputError
    │   └── UnserializableHookError  a hook that could not be found again by its name (also a ValueError)
    ├── NotFoundError
    │   └── UnregisteredHookError    nothing is registered under this name and type (also a KeyError)
    └── NotAsyncError                a plain function where an async one is needed (also a TypeError)
"""

from __future__ import annotations

from ..errors import InvalidInputError, NotFoundError, RefusedError


class UnregisteredHookError(NotFoundError):
    """No hook is registered under this name and type."""


class UnserializableHookError(InvalidInputError):
    """A hook that is not the one registered under its name, so that it could not be restored."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"hook {name!r} is not the one registered under that name (a closure or a duplicate); "
            "define it at module level to save its owner"
        )


class NotAsyncError(RefusedError, TypeError):
    """A function that cannot be awaited where one is needed that can."""

    def __init__(self, what: str, given: object) -> None:
        name = getattr(given, "__name__", None) or repr(given)
        super().__init__(f"{what} must be async, and {name!r} is not: define it with `async def`")
