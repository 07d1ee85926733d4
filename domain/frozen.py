"""
Lists and dicts that refuse changes but are equal to plain ones.

A context changes only by events; so a value that a view returns cannot be changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NoReturn, TypeVar

from .errors import DecisionRefusedError, InvalidInputError

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
