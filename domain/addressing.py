"""
How a moment is named: a version, a time, a position, or a name given to a version.

One grammar for `.at(x)`, `CTX@x` and `--at x` (DESIGN.md, Addressing).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NewType

from .errors import InvalidInputError
from .positions import Moment

Name = NewType("Name", str)
Address = int | datetime | Moment | Name
VERSION = re.compile(r"[+-]?[0-9]{1,18}")


def parse_address(address: int | datetime | str | Moment) -> Address:
    """
    Return what an address means: a version, an aware time, a moment of the log, or a name.

    Raises:
        InvalidInputError: it is none of these; a time without a zone is not guessed at.
    """
    if isinstance(address, bool) or not isinstance(address, int | datetime | str | Moment):
        raise InvalidInputError(f"{address!r} names no moment: give a version, a time, `pos:P` or a name")
    if isinstance(address, datetime):
        return _require_zone(address, str(address))
    if not isinstance(address, str):
        return address
    if address.startswith("pos:"):
        return Moment.parse(address.removeprefix("pos:"))
    if VERSION.fullmatch(address):
        return int(address)
    if address[:1].isalpha():
        return Name(address)
    return _parse_time(address)


def require_name(name: str) -> str:
    """
    Return `name` if it can name a version.

    Raises:
        InvalidInputError: it does not start with a letter, is too long, or holds `@`, `..` or a blank.
    """
    usable = name[:1].isalpha() and len(name) <= 100 and name.isprintable() and not set(name) & set("@: ")
    usable = usable and ".." not in name
    if not usable:
        raise InvalidInputError(
            f"{name!r} cannot name a version: a letter first, at most 100 characters, no blank, @, : or .."
        )
    return name


def microseconds(time: datetime) -> int:
    """Return an aware time in microseconds since 1970, UTC."""
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _parse_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r} names no moment: give a version like 17 or -5, a time like 2026-11-21T10:00:00Z, "
            "pos:P, or a name"
        ) from error
    return _require_zone(time, text)


def _require_zone(time: datetime, text: str) -> datetime:
    if time.tzinfo is None:
        raise InvalidInputError(f"{text!r} has no time zone: add Z for UTC, or an offset like +01:00")
    return time
