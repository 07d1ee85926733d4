"""
Guards of arguments: each returns a value that was given to a public call, or raises an error that names it.

Unless something else is said, the error is an InvalidInputError, and the parameter `what` is the name of the value in
it. The guards of texts are in `canonical`, those of ids and names in `ids`.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable, Mapping, Set
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from .canonical import require_unicode
from .clock import System
from .errors import InvalidInputError, RefusedError

T = TypeVar("T")


class NotAnItemError(RefusedError, TypeError):
    """An object that is not a ContextItem was given to a queue, a pool or a window."""


def other_item(given: object, taken: str) -> str:
    """Return a hint for the error about an item of another kind of container: both classes are named ContextItem."""
    return f": take {taken}, another class of this name" if type(given).__name__ == "ContextItem" else ""


def require_whole(number: Any, what: str, *, least: int | None = 0) -> int:
    """Return a whole number that is not below `least`; True and False are no numbers."""
    try:
        whole = operator.index(number)
    except TypeError:
        whole = None
    if whole is None or isinstance(number, bool):
        raise InvalidInputError(f"{what} is {number!r}: take a whole number")
    if least is not None and whole < least:
        raise InvalidInputError(f"{what} is {whole}: take {least} or more")
    return whole


def require_limits(**limits: Any) -> None:
    """Check limits by name: each is None, or a whole number from 0 on."""
    for name, limit in limits.items():
        if limit is not None:
            require_whole(limit, name)


def require_instance(value: Any, kind: type[T], what: str, remedy: str) -> T:
    """Return `value`, if it is of the class `kind`; the error ends with the `remedy`."""
    if not isinstance(value, kind):
        raise InvalidInputError(f"{what} is {value!r}: {remedy}")
    return value


def require_path(given: object, what: str = "the file") -> Path:
    """Return the path of a file. It has no NUL: the operating system would ignore what comes after it."""
    if not isinstance(given, str | PathLike):
        raise InvalidInputError(f"{what} is {given!r}: give a path")
    path = Path(given)
    if "\0" in str(path):
        raise InvalidInputError(f"{what} {str(path)!r} holds a NUL: leave it out")
    return path


def require_callable(value: T, what: str) -> T:
    """Return `value`, if it is a function."""
    if not callable(value):
        raise InvalidInputError(f"{what} is {value!r}: give a function")
    return value


def require_done(result: T, refusal: str) -> T:
    """Return the result of a function that a caller gave; if the function is async, the error says `refusal`."""
    if inspect.isawaitable(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        raise InvalidInputError(refusal)
    return result


def require_functions(**functions: Any) -> None:
    """Check functions by name: each is None, or can be called."""
    for name, function in functions.items():
        if function is not None:
            require_callable(function, name)


def require_methods(value: T, what: str, remedy: str, *methods: str) -> T:
    """Return `value`, if it has these methods; the error ends with the `remedy`."""
    if not all(callable(getattr(value, method, None)) for method in methods):
        raise InvalidInputError(f"{what} is {value!r}: {remedy}")
    return value


def require_system(system: System) -> System:
    """Return a source of times and ids."""
    return require_methods(system, "system", "give an object with now and new_id", "now", "new_id")


def require_optional(text: str | None, what: str) -> str | None:
    """Return a text, or None if none was given."""
    return None if text is None else require_unicode(text, what)


def refuse_copy(kept: object) -> tuple[Any, ...]:
    """
    The `__reduce__` of an object that holds a log, which can neither be copied nor pickled.

    Raises:
        TypeError: always, as `copy` and `pickle` expect it of such an object.
    """
    raise TypeError(
        f"{type(kept).__name__} objects can neither be copied nor sent to another process: there, open the store by "
        "its location; here, `fork` or `branch` makes another context"
    )


def require_several(values: Iterable[T], what: str) -> list[T]:
    """Return a list of values, if they are given as an iterable that is neither a text nor an object with fields."""
    # Models of pydantic can be iterated over, by their fields.
    is_one = isinstance(values, str | bytes | Mapping) or hasattr(type(values), "model_fields")
    if is_one or not isinstance(values, Iterable):
        raise InvalidInputError(f"{what}: found {_type_in_words(values)}, give a list")
    return list(values)


def require_texts(values: str | Iterable[str], what: str) -> tuple[str, ...]:
    """Return one text, or several, as a tuple. A set is sorted."""
    if isinstance(values, str):
        return (require_unicode(values, what),)
    given = require_several(values, what)
    texts = tuple([require_unicode(text, f"{what}, number {index},") for index, text in enumerate(given)])
    # The order of a set differs between processes. It is sorted so that a repeated call is recognised.
    return tuple(sorted(texts)) if isinstance(values, Set) else texts


def require_tags(tags: Iterable[str] | None) -> tuple[str, ...]:
    """
    Return tags, each once, sorted. As in the seed, those of a plain text are its characters.

    Raises:
        InvalidInputError: they cannot be iterated over, or one is no text.
    """
    if not isinstance(tags, Iterable | None):
        raise InvalidInputError(f"the tags are {tags!r}: take a list of texts")
    return tuple(sorted({require_unicode(tag, "a tag") for tag in tags or ()}))


def has_no_data(url: str) -> bool:
    """Return whether a text begins like a data URL, but lacks the comma that precedes the data."""
    return is_data_url(url) and "," not in url


def is_data_url(url: str) -> bool:
    """Return whether a text begins like a data URL, in letters of either case."""
    return url[:5].lower() == "data:"


def _type_in_words(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
