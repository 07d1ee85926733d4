"""The parameters of a request of the page, or of the call of a tool, checked when they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...domain.errors import InvalidInputError


class Parameters(NamedTuple):
    """The parameters of a request by name; `refs` are the values of `ref`, which may be given several times."""

    by_name: Mapping[str, Any]
    refs: Sequence[str]

    def text(self, name: str) -> str | None:
        """Return a parameter that is a text; None if it is missing or empty."""
        value = self.by_name.get(name)
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
        value = self.by_name.get(name)
        if value is None or value == "":
            return default
        try:
            if isinstance(value, bool | float):
                raise TypeError
            number = int(value)
        except (TypeError, ValueError):
            raise InvalidInputError(f"{name} is {value!r}: give a whole number") from None
        if not least <= number <= most:
            raise InvalidInputError(f"{name} is {number}: it is a number from {least:,} to {most:,}")
        return number

    def flag(self, name: str) -> bool:
        """
        Return a parameter of JSON that is true or false, and false if it is missing.

        Raises:
            InvalidInputError: it is neither.
        """
        value = self.by_name.get(name, False)
        if not isinstance(value, bool):
            raise InvalidInputError(f"{name} is {value!r}: give true or false")
        return value

    def many(self, name: str, most: int) -> list[Any]:
        """
        Return a parameter of JSON that is a list, with one value at least.

        Raises:
            InvalidInputError: it is none, or has too many values.
        """
        value = self.by_name.get(name)
        if value is None:
            raise InvalidInputError(f"the parameter {name} is missing")
        if not isinstance(value, list) or not value:
            raise InvalidInputError(f"{name} is {str(value)!r:.100}: give a list with one value at least")
        if len(value) > most:
            raise InvalidInputError(f"{name} has {len(value):,} values: give {most:,} at most")
        return value

    def texts(self, name: str, most: int) -> list[str]:
        """
        Return a parameter of JSON that is a list of texts, with one at least.

        Raises:
            InvalidInputError: it is none, or has too many texts.
        """
        values = self.many(name, most)
        for value in values:
            if not isinstance(value, str) or not value:
                raise InvalidInputError(f"{name} has {str(value)!r:.100}: give texts that are not empty")
        return values
