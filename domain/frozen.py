"""
Lists and dicts that refuse changes but are equal to plain ones.

A context changes only by events; so a value that a view returns cannot be changed in place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from weakref import WeakValueDictionary

from .errors import DecisionRefusedError, InvalidInputError, RefoldError

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise DecisionRefusedError(
        f"this {type(self).__name__} is a view and cannot be changed in place: "
        "change the context by its methods, or copy it with list() or dict()"
    )


class FrozenList(list[T], Generic[T]):
    """A list whose changing methods raise DecisionRefusedError."""

    __slots__ = ()
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (list(self),))

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenList[T]:
        # It cannot change, so it is its own copy.
        return self


class FrozenDict(dict[K, V], Generic[K, V]):
    """A dict whose changing methods raise DecisionRefusedError."""

    __slots__ = ()
    update = pop = popitem = clear = setdefault = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (dict(self),))

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict[K, V]:
        return self


class PartlyRead(Protocol):
    """A list of which some elements are in a log until they are used."""

    @property
    def log(self) -> object:
        """The log."""

    def read_all(self) -> object:
        """Read all elements."""

    def is_cached(self) -> bool:
        """Return whether the context that gave the list keeps it for its next call."""


# By id, since a list has no hash.
PARTLY_READ: WeakValueDictionary[int, PartlyRead] = WeakValueDictionary()


def read_before_closing(log: object) -> None:
    """Read all elements of the lists from a log that is about to be closed, if somebody besides a context has them."""
    for held in PARTLY_READ.valuerefs():
        if _is_in_use(held, log):
            # An element that cannot be read raises an error when it is used.
            with suppress(RefoldError):
                _it(held).read_all()


def _it(held: Callable[[], PartlyRead | None]) -> Any:
    return held()


def _is_in_use(held: Callable[[], PartlyRead | None], log: object) -> bool:
    """Return whether a list is of a log, and somebody besides its context has it; True where Python cannot say."""
    if getattr(held(), "log", None) is not log or not hasattr(held(), "read_all"):
        return False
    if not hasattr(sys, "getrefcount"):
        return True
    # Counted in the same way, so that the references of the calls are in both counts.
    return _references([held()]) - _references([FrozenList()]) > int(_it(held).is_cached())


def _references(of: list[Any]) -> int:
    return sys.getrefcount(of[0])


def freeze(value: Any) -> Any:
    """
    Return `value` with all its lists and dicts frozen, at every depth.

    Raises:
        InvalidInputError: it is nested deeper than Python can read.
    """
    try:
        return _frozen(value)
    except RecursionError:
        raise InvalidInputError("its lists and dicts are nested too deep") from None


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return FrozenDict({key: _frozen(inner) for key, inner in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList([_frozen(inner) for inner in value])
    return value


def thaw(value: Any) -> Any:
    """Return `value` with plain lists and dicts at every depth; changing them does not change the frozen ones."""
    if isinstance(value, Mapping):
        return {key: thaw(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(inner) for inner in value]
    return value
