"""A request of the page: its parameters, checked when they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...domain.errors import InvalidInputError
from ..store import Store


class Wish(NamedTuple):
    """What was asked for: the parameters of a request by name."""

    given: Mapping[str, Any]
    refs: Sequence[str]

    def text(self, name: str) -> str | None:
        """Return a parameter that is a text; None if it is missing or empty."""
        value = self.given.get(name)
        if value is not None and not isinstance(value, str):
            raise InvalidInputError(f"{name} is {value!r}: give a text")
        return value or None

    def required(self, name: str) -> str:
        """
        Return a parameter that must be there.

        Raises:
            InvalidInputError: it is missing.
        """
        value = self.text(name)
        if value is None:
            raise InvalidInputError(f"the parameter {name} is missing")
        return value

    def whole(self, name: str, default: int, least: int = 0, most: int = 1 << 53) -> int:
        """
        Return a parameter that is a whole number.

        Raises:
            InvalidInputError: it is none, or out of range.
        """
        value = self.given.get(name)
        if value is None or value == "":
            return default
        try:
            number = int(value)
        except (TypeError, ValueError):
            raise InvalidInputError(f"{name} is {value!r}: give a whole number") from None
        if not least <= number <= most:
            raise InvalidInputError(f"{name} is {number}: it is a number from {least:,} to {most:,}")
        return number


class Question(NamedTuple):
    """A question: its answer to a wish, a line about it, and its parameters, each with a line about it."""

    answer: Callable[[Store, Wish], Any]
    about: str
    parameters: Mapping[str, str]
    lasting: tuple[str, ...] = ()

    def is_lasting(self, wish: Wish) -> bool:
        """Return whether the answer never changes: it names the versions it is about."""
        return bool(self.lasting) and all(_names_version(wish, name) for name in self.lasting)


def _names_version(wish: Wish, name: str) -> bool:
    if name == "ref":
        return bool(wish.refs)
    given = str(wish.given.get(name, ""))
    return (given.rpartition("@")[2] if "@" in given else given).isdigit()
