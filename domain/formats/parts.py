"""
Messages that consist of parts, as several formats have them: texts, images, calls and results of calls.

A format says what each of its parts is, and how each is written; the rest is the same for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from ..arguments import is_data_url
from ..chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded, Origin
from .google.send import media_type_of
from .receive import Receiver, as_text
from .send import inline_of

ADDRESSES = ("http://", "https://", "data:image/")


class Picture(NamedTuple):
    """An image at an address, or in a data URL; `data` is its base64 then."""

    url: str
    media_type: str
    data: str | None = None


class Call(NamedTuple):
    """A call; its arguments are text, or an object."""

    name: str
    arguments: Any
    call_id: str | None


class Result(NamedTuple):
    """The output of a call; text, or any JSON."""

    name: str
    output: Any
    call_id: str | None
    is_error: bool = False


# None is a part that only the format itself knows: it is kept beside the items.
Part = str | Picture | Call | Result | None


def picture_at(url: Any) -> Picture | None:
    """Return the image at an address, if it can be sent to others."""
    is_address = isinstance(url, str) and url[: len(ADDRESSES[-1])].lower().startswith(ADDRESSES)
    return Picture(url, media_type_of(url)) if is_address else None


def picture_of(data: Any, media_type: Any) -> Picture | None:
    """Return the image with this content in base64, if it is one."""
    if not isinstance(data, str) or not str(media_type).startswith("image/"):
        return None
    url = f"data:{media_type};base64,{data}"
    return Picture(url, str(media_type), data) if inline_of(url) else None


def read_parts(role: str, parts: Iterable[Part], into: Receiver, where: str) -> None:
    """
    Add the texts and images of a message as one item, then an item for each call and each result.

    A message with nothing that others know becomes an item that is apart.
    """
    listed = list(parts)
    asked = [part for part in listed if isinstance(part, Call | Result)]
    contents = [part for part in listed if isinstance(part, str | Picture)]
    made = [part if isinstance(part, str) else into.image(part.url) for part in contents]
    shown = [part for part in made if part is not None]
    if shown or not asked:
        into.say(role, shown[0] if len(shown) == 1 and isinstance(shown[0], str) else shown, {}, where)
        if listed and not shown:
            into.items[-1] = msgspec.structs.replace(into.items[-1], origin=Origin(apart=True))
    for part in asked:
        if isinstance(part, Call):
            into.call(part.name, part.arguments, part.call_id, {}, where)
        else:
            into.answer(part.name, as_text(part.output, where), part.call_id, is_error=part.is_error, where=where)


def parts_of(items: Sequence[ChatItemEvent]) -> Iterator[str | Picture | Call | Result]:
    """Yield the parts of the message that consists of these items."""
    for item in items:
        if isinstance(item, FunctionCalled):
            yield Call(item.name, item.arguments, item.call_id)
        elif isinstance(item, FunctionReturned):
            yield Result(item.name, item.output, item.call_id, item.is_error)
        elif isinstance(item, MessageAdded):
            for part in item.parts:
                yield part if isinstance(part, str) else _picture(part)


def plain_arguments(text: str) -> Any:
    """Return the arguments of a call as the object that gives the same text again; else the text."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) and as_text(value, "arguments") == text else text


def role_of(items: Sequence[ChatItemEvent]) -> str:
    """Return system, user, assistant, or tool for outputs."""
    first = items[0]
    if isinstance(first, MessageAdded):
        return "system" if first.role == "developer" else first.role
    return "tool" if isinstance(first, FunctionReturned) else "assistant"


def time_of(item: ChatItemEvent) -> datetime:
    """Return the time of an item in UTC; for one outside the years 1 to 9999, such as one in ms, the nearest time."""
    try:
        return datetime.fromtimestamp(item.created_at, UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.min if item.created_at < 0 else datetime.max).replace(tzinfo=UTC)


def time_text(item: ChatItemEvent) -> str:
    """Return the time of an item as text, such as 2026-11-21T10:00:00Z."""
    return time_of(item).isoformat().replace("+00:00", "Z")


def seconds_in(text: Any) -> float | None:
    """Return the time that a text gives, in seconds since 1970; None if it gives none, or none with a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return None if moment.tzinfo is None else moment.timestamp()


def _picture(image: Image) -> Picture:
    inline = inline_of(image.image) if is_data_url(image.image) else None
    return Picture(image.image, media_type_of(image.image), inline.data if inline else None)
