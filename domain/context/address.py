"""
From an address to a version: which version of a stream a number, a time, a position, a name or an item means.

The command line and the page's URLs take the same references: `CTX`, `CTX@V` and `CTX@A..B`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from ..errors import InvalidInputError, NotFoundError
from ..ids import Address, AtItem, AtItemTime, microseconds, parse_address
from ..log.ports import Log
from ..positions import Moment

Find = Callable[[AtItem | AtItemTime], int | None]


class Reference(NamedTuple):
    """A context, and the moments after its `@`: none, one, or both ends of a range, of which "" is an open one."""

    context: str
    moments: tuple[str, ...] = ()
    is_range: bool = False

    @property
    def moment(self) -> str | None:
        """The first moment, which is the only one unless this is a range; None if there is none."""
        return self.moments[0] if self.moments else None

    @property
    def ends(self) -> tuple[str, str | None]:
        """Both ends of a range: without the first, it begins before the first event; without the last, it ends now."""
        first, last = self.moments
        return first or "0", last or None


def parse_reference(text: str) -> Reference:
    """
    Return the parts of `CTX`, `CTX@V` or `CTX@A..B`. They are unambiguous, because ids contain neither `@` nor `..`.

    Raises:
        InvalidInputError: there is no context, or a moment is malformed.
    """
    context, at, moment = text.partition("@")
    if not context or (at and not moment):
        raise InvalidInputError(f"{text!r} should be a context, or a context and a moment like support@3")
    first, dots, last = moment.partition("..")
    ends = (first, last) if dots else (first,) if at else ()
    for end in filter(None, ends):
        parse_address(end)
    return Reference(context, ends, is_range=bool(dots))


def parse_moment(text: str) -> Reference:
    """
    Return the parts of `CTX` or `CTX@V`.

    Raises:
        InvalidInputError: it is none of these, or a range.
    """
    found = parse_reference(text)
    if found.is_range:
        raise InvalidInputError(f"{text!r} names a range, and one moment is wanted here")
    return found


def resolve_version(
    log: Log,
    stream: str,
    address: int | str | datetime | Moment,
    *,
    head: int,
    names: Callable[[], Mapping[str, int]],
    find: Find | None = None,
) -> int:
    """
    Return the version of `stream` that `address` means; `head` is the newest, `names` returns the names given so far.

    A negative number counts back from the head: -1 is the version before it. `names` is called for a name alone, since
    it may read events, and damaged ones must not hide the versions before them. `find` returns the version of an item
    or of a time at which items happened, or None; only chats have it.

    Raises:
        InvalidInputError: the address is malformed.
        NotFoundError: no such version or name.
    """
    parsed: Address = parse_address(address)
    if isinstance(parsed, int):
        version = parsed if parsed >= 0 else head + parsed
        if not 0 <= version <= head:
            raise NotFoundError(f"{stream} has no version {parsed}: it goes from 0 to {head}")
        return version
    if isinstance(parsed, datetime):
        return min(head, log.version_at(stream, microseconds(parsed)))
    if isinstance(parsed, Moment):
        return min(head, log.version_at(stream, parsed))
    if isinstance(parsed, str):
        return _named_version(stream, parsed, names(), find)
    if find is None:
        raise InvalidInputError(f"{stream}: item:ID and happened:TIME go with chats; give a version, a time or a name")
    found = find(parsed)
    if found is None:
        raise NotFoundError(f"{stream} has no item with the id or call id {parsed[0]!r}")
    return found


def _named_version(stream: str, name: str, names: Mapping[str, int], find: Find | None) -> int:
    """Return the version that has a name; in a chat, the name may also be the id of an item."""
    found = names.get(name)
    if found is None and find is not None:
        found = find(AtItem(name))
    if found is None:
        known = ", ".join(sorted(names)) or "none yet"
        items = "" if find is None else ", nor an item with this id"
        raise NotFoundError(f"{stream} has no version named {name!r}{items} (names: {known})")
    return found
