"""
Names and what they mean: ids of contexts and their streams, slices, names of versions, addresses.

A stream is the unit of order and conflict; its id is `kind:id`. A slice is one of 1,024 parts of the log: streams that
belong together (a session, a fork and its parent) share a slice, and so they can share a transaction.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, time
from typing import NamedTuple, NewType
from urllib.parse import quote, unquote

from .canonical import ID_BYTES_MAX, require_unicode
from .errors import InvalidInputError
from .positions import Moment

SLICES = 1024
# The ids of streams of a store itself begin so.
OF_STORE = "store:"
# Greater than all keys of rows and ids of streams: a key has at most 2,500 bytes.
LAST_KEY = chr(0x10FFFF) * 1_000
VERSION_MAX = (1 << 31) - 1
VERSION = re.compile(r"[+-]?[0-9]{1,18}")
# The percent sign itself, `@`, the second of two dots, and control characters: ids cannot contain these (see
# `stream_id`).
RESERVED = re.compile("[%@\x00-\x1f\x7f-\x9f]|(?<=\\.)\\.")


def stream_id(kind: str, context_id: str) -> str:
    """
    Return the id of the stream of the context `context_id` of this kind.

    Raises:
        InvalidInputError: the id is no text, is empty, too long, or holds a control character, `@` or `..`.
    """
    fault = _fault_of(context_id)
    if fault:
        raise InvalidInputError(f"{context_id!r} cannot be the id of a {kind} context: {fault}")
    return f"{kind}:{context_id}"


def split_stream_id(stream: str) -> tuple[str, str]:
    """Return `(kind, id)` of a stream id; the id itself may contain colons."""
    kind, _, context_id = stream.partition(":")
    return kind, context_id


def derived_id(root_id: str, ending: str) -> str:
    """Return an id made of a root's id and an ending; the root's id is cut if both together would be too long."""
    room = ID_BYTES_MAX - len(ending.encode())
    return root_id.encode()[:room].decode(errors="ignore") + ending


def slice_of(root: str) -> int:
    """Return the slice, 0 to 1,023, of all streams of `root` (the id of a session or a context)."""
    digest = hashlib.blake2b(root.encode()).digest()
    return int.from_bytes(digest[:8], "big") % SLICES


def _fault_of(context_id: str) -> str | None:
    if not isinstance(context_id, str):
        return "an id is a text"
    try:
        size = len(context_id.encode())
    except UnicodeEncodeError:
        return "it holds a lone surrogate, which is not UTF-8"
    if not 1 <= size <= ID_BYTES_MAX:
        return f"it has {size} bytes of UTF-8, and 1 to {ID_BYTES_MAX} are allowed"
    if "@" in context_id or ".." in context_id:
        return "`@` and `..` are kept for versions and ranges"
    if not context_id.isprintable() and any(ord(char) < 32 or 127 <= ord(char) < 160 for char in context_id):
        return "it holds a control character"
    return None


def require_reference(reference: object, what: str) -> str:
    """
    Return the reference of an event, `stream@version`, if it has this form; `what` names it in the error.

    Raises:
        InvalidInputError: it has another form.
    """
    stream, _, version = require_unicode(reference, what).rpartition("@")
    kind, context_id = split_stream_id(stream)
    # A longer number is not converted: Python raises an error of its own for thousands of digits.
    is_numbered = version[:1].isdigit() and VERSION.fullmatch(version) and 0 < int(version) <= VERSION_MAX
    if not (kind and is_numbered) or _fault_of(context_id):
        raise InvalidInputError(
            f"{what} is {reference!r}, which names no event: give a recorded event, or its reference like 'chat:a@3'"
        )
    return f"{stream}@{version}"


Name = NewType("Name", str)
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
ITEM, HAPPENED = "item:", "happened:"
NO_MOMENT = (
    "names no moment: give a version like 17 or -5, a day like 2026-11-21, a time like 2026-11-21T10:00:00Z, "
    "happened:TIME, item:ID, pos:P, or a name"
)


class AtItem(NamedTuple):
    """The version that brought an item, given its id or, for a call, its call id."""

    name: str


class AtItemTime(NamedTuple):
    """The last version before the first item that is younger than a time, whenever that item was recorded."""

    time: datetime


Address = int | datetime | Moment | Name | AtItem | AtItemTime


def parse_address(address: int | datetime | str | Moment) -> Address:
    """
    Return the meaning of an address: a version, an aware time, a moment of the log, an item, or a name.

    A day means its end, in UTC.

    Raises:
        InvalidInputError: it has none of these forms, or is a time without a zone.
    """
    if isinstance(address, bool) or not isinstance(address, int | datetime | str | Moment):
        raise InvalidInputError(f"{address!r} {NO_MOMENT}")
    if isinstance(address, datetime):
        return _require_zone(address, str(address))
    if not isinstance(address, str):
        return address
    if address.startswith("pos:"):
        return Moment.parse(address.removeprefix("pos:"))
    if address.startswith(ITEM) and address != ITEM:
        return AtItem(address.removeprefix(ITEM))
    if address.startswith(HAPPENED):
        return AtItemTime(_parse_time(address.removeprefix(HAPPENED)))
    if VERSION.fullmatch(address):
        return int(address)
    if address[:1].isalpha():
        return Name(address)
    return _parse_time(address)


def require_name(name: str, what: str = "version") -> str:
    """
    Return `name`, if it is valid as the name of a version, or of another thing that `what` names in the error.

    Raises:
        InvalidInputError: it does not start with a letter, is too long, or holds `@`, `:`, `..` or a blank.
    """
    usable = isinstance(name, str) and name[:1].isalpha() and len(name) <= 100 and name.isprintable()
    if not usable or set(name) & set("@: ") or ".." in name:
        raise InvalidInputError(
            f"{name!r} cannot name a {what}: a letter first, at most 100 characters, no blank, @, : or .."
        )
    return require_unicode(name, f"the name of a {what}")


def microseconds(moment: datetime) -> int:
    """Return an aware time in microseconds since 1970, UTC."""
    # In integers: a float of seconds may be off by a microsecond.
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _parse_time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(f"{text!r} {NO_MOMENT}") from error
    if DAY.fullmatch(text):
        return datetime.combine(found, time.max, UTC)
    return _require_zone(found, text)


def _require_zone(given: datetime, text: str) -> datetime:
    if given.tzinfo is None:
        raise InvalidInputError(f"{text!r} has no time zone: add Z for UTC, or an offset like +01:00")
    return given


def encoded_id(name: str, what: str) -> str:
    """
    Return the id of the context that belongs to `name`; `what` names it in the error.

    Raises:
        InvalidInputError: the name is empty, not Unicode, or too long for an id.
    """
    encoded = RESERVED.sub(_percent_encoded, require_unicode(name, what))
    size = len(encoded.encode())
    if not 1 <= size <= ID_BYTES_MAX:
        raise InvalidInputError(
            f"{what} takes {size} bytes as the id of a context, and 1 to {ID_BYTES_MAX} are allowed"
        )
    return encoded


def decoded_id(context_id: str) -> str:
    """Return the name from which `encoded_id` made this id."""
    return unquote(context_id)


def _percent_encoded(found: re.Match[str]) -> str:
    return "%2E" if found[0] == "." else quote(found[0], safe="")


def end_of_prefix(prefix: str) -> str:
    """Return a text that is greater than all keys with a prefix, and not greater than any key behind them."""
    kept = prefix.rstrip(chr(0x10FFFF))
    if not kept:
        return LAST_KEY
    code = ord(kept[-1]) + 1
    # Surrogates are not characters, and no database stores them.
    return kept[:-1] + chr(0xE000 if code == 0xD800 else code)
