"""
Lists and dicts that refuse changes but are equal to plain ones.

A context changes only by events; so a value that a view returns cannot be changed in place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, NoReturn, TypeVar
from weakref import WeakValueDictionary

from .errors import DecisionRefusedError, InvalidInputError, RefoldError

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise DecisionRefusedError(
        f"this {'list' if isinstance(self, list) else 'dict'} is a view and cannot be changed in place: "
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


# Lists whose elements are in a `log` until they are used, or until `read_all()`; by id, since a list has no hash.
# `is_cached()` says whether a context keeps the list for its next call.
PARTLY_READ: WeakValueDictionary[int, Any] = WeakValueDictionary()


def read_before_closing(log: object) -> None:
    """Read all elements of lists from a log that is about to be closed, if anything besides a context uses the list."""
    for held in PARTLY_READ.valuerefs():
        _read_if_used(held, log)


def _read_if_used(held: Callable[[], Any], log: object) -> None:
    if getattr(held(), "log", None) is not log or not hasattr(held(), "read_all"):
        return
    # Both numbers are counted in the same way, so both include the references of the calls. Some Pythons count none.
    if hasattr(sys, "getrefcount"):
        others = _references([held()]) - _references([FrozenList()]) - int(held().is_cached())
        if others <= 0:
            return
    # An element that cannot be read raises an error when it is used.
    with suppress(RefoldError):
        held().read_all()


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
