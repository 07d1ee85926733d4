"""The past of one stream: from an address to a version, and from a version to a state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ..errors import NotFoundError
from ..ids import Address, microseconds, parse_address
from ..log.ports import Log
from ..positions import Moment


def resolve_version(
    log: Log, stream: str, address: int | str | datetime | Moment, *, head: int, names: Mapping[str, int]
) -> int:
    """
    Return the version of `stream` that `address` means; `head` is the newest, `names` the names given so far.

    A negative number counts back from the head: -1 is the version before it.

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
    if parsed not in names:
        known = ", ".join(sorted(names)) or "none yet"
        raise NotFoundError(f"{stream} has no version named {parsed!r} (names: {known})")
    return names[parsed]
