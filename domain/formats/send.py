"""
The common part of sending: the place of instructions, calls grouped with their outputs, data URLs.

The formats of OpenAI share one rule for instructions. The instructions in force are sent once, at the place of the
first system or developer message, or in front if there is none. If all instructions were imported and the last of them
are in force, each message of instructions is sent as it was imported.
"""

from __future__ import annotations

import binascii
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ..canonical import parse_json
from ..chat import events as chat
from ..chat.pairing import pair_calls
from ..chat.state.fold import active_config
from ..concurrency.known_types import known
from ..errors import MISSHAPEN
from .source_json import listed_output

# Sent where a provider requires content that the context does not have.
DUMMY_FIRST = "(empty)"
DUMMY_LAST = "."
# The stub in the place of an output. It is marked as one, so that neither a model nor a program takes it for an output.
NO_OUTPUT = "[No output was recorded for this call; it may or may not have run]"
_JSON = msgspec.json.Decoder()
_PLAIN = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_-]")
MALFORMED = "its data URL is malformed"


class PlacedInstructions(msgspec.Struct, frozen=True):
    """
    `text` is sent at the item `place`, or in front if `place` is None; all other instructions are left out.

    With `as_recorded` each message of instructions is sent unchanged instead.
    """

    text: str | None
    place: int | None
    as_recorded: bool


def place_instructions(items: Sequence[chat.ChatItemEvent]) -> PlacedInstructions:
    """Return which instructions are sent, and where."""
    bearing = [index for index, item in enumerate(items) if chat.sets_config(item)]
    text = active_config(items[index] for index in bearing).instructions
    spoken = [index for index in bearing if type(items[index]) is chat.MessageAdded]
    if not spoken:
        return PlacedInstructions(text=text, place=None, as_recorded=False)
    is_in_force = active_config([items[spoken[-1]]]).instructions == text
    is_alone = len(bearing) == 1
    return PlacedInstructions(
        text=text,
        place=spoken[0],
        as_recorded=is_in_force and (is_alone or _is_imported(items, bearing)),
    )


def _is_imported(items: Sequence[chat.ChatItemEvent], bearing: Sequence[int]) -> bool:
    """Whether all instructions were imported; a config update that only names tools overrules no instructions."""
    return all(
        items[index].origin is not None or getattr(items[index], "instructions", "") is None for index in bearing
    )


Batch = list[tuple[chat.FunctionCalled, chat.FunctionReturned | None]]


def turns_of(items: Iterable[chat.ChatItemEvent]) -> Iterator[chat.MessageAdded | Batch]:
    """
    Yield the messages of users and assistants, and the batches of calls, each call with its output or None.

    An output that answers no call is left out; an output that came late is yielded with its call.
    """
    listed = list(items)
    output_of = pair_calls(listed).output_of
    batch: Batch = []
    is_open = False
    for index, item in enumerate(listed):
        kind = type(item)
        if kind is chat.FunctionCalled:
            if batch and not is_open:
                yield batch
                batch = []
            place = output_of.get(index)
            batch.append((item, None if place is None else listed[place]))  # type: ignore[arg-type]  # as paired
            is_open = True
        elif kind is chat.FunctionReturned:
            is_open = False
        elif kind is chat.MessageAdded and item.role in ("user", "assistant"):  # type: ignore[union-attr]  # just asked
            if batch:
                yield batch
                batch = []
            yield item  # type: ignore[misc]  # just asked
    if batch:
        yield batch


class UniqueIds:
    """
    Gives each call a unique id: its own id if that is free, else that id with the next free number behind a `sign`.

    `cleaned` returns an id that the provider accepts. It has at most `length_max` characters, and so has a renamed id.
    Later items never change an id that was given, so the beginning of a conversion stays the same.
    """

    def __init__(self, cleaned: Callable[[str], str], sign: str = "_", length_max: int = sys.maxsize) -> None:
        self._cleaned, self._sign, self._length_max = cleaned, sign, length_max
        self._taken: dict[str, int] = {}

    def take(self, call_id: str) -> str:
        """Return the id under which to send the next call that was recorded under `call_id`."""
        wanted = self._cleaned(call_id)
        taken = self._taken
        if wanted not in taken:
            taken[wanted] = 1
            return wanted
        number = taken[wanted] + 1
        # A recorded id may look like a renamed one.
        while (renamed := self._renamed(wanted, number)) in taken:
            number += 1
        taken[wanted] = number
        taken[renamed] = 1
        return renamed

    def _renamed(self, wanted: str, number: int) -> str:
        ending = f"{self._sign}{number}"
        return wanted[: self._length_max - len(ending)] + ending


def with_plain_characters(name: str) -> str:
    """Return a name of letters, digits, `_` and `-`, of at least one; other characters become `_`."""
    # Most names have only these characters, and that test is cheaper than a search for others.
    return name if _PLAIN(name) else _NOT_PLAIN.sub("_", name) or "_"


def arguments_of(text: str) -> dict[str, Any]:
    """
    Return the arguments of a call as an object, which providers require.

    An empty text and `null` mean no arguments. A text that is not a JSON object is passed unchanged, as `arguments`.
    """
    try:
        value = _JSON.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {"arguments": text} if text.strip() else {}
    if isinstance(value, dict):
        return value
    return {} if value is None else {"arguments": text}


class Inline(NamedTuple):
    """The content of a data URL: a media type in lower case, and standard base64."""

    media_type: str
    data: str


def inline_of(url: str) -> Inline | None:
    """Return the content of a data URL, or None if it has no media type or is not valid base64."""
    header, comma, data = url[5:].partition(",")
    media_type, *parameters = header.lower().split(";")
    if not comma or "/" not in media_type or "base64" not in parameters:
        return None
    data = "".join(data.split())
    try:
        decoded = binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return None
    return Inline(media_type, data) if decoded else None


class _Text(msgspec.Struct, tag="text"):
    text: str


class _InputText(msgspec.Struct, tag="input_text"):
    text: str


class _Base64(msgspec.Struct, tag="base64"):
    media_type: str
    data: str


class _Image(msgspec.Struct, tag="image"):
    source: _Base64


class _InputImage(msgspec.Struct, tag="input_image"):
    image_url: str


def parts_of_output(answer: chat.FunctionReturned) -> list[str | Inline] | None:
    """
    Return the texts and images of an output that has images; None for any other output, which is a text.

    Such an output is stored as JSON in Anthropic's form, or came from the Responses API. A part from that API that is
    neither a text nor an inline image is replaced by a text that names it. An image at an address is not sent: the
    author of an output could make the provider load anything.
    """
    origin, output = answer.origin, answer.output
    if origin is not None and b'"input_' in origin.rest:
        with suppress(*MISSHAPEN):
            beside = parse_json(origin.rest)["responses"]
            if beside["parts"]:
                return [_part_of(part) for part in listed_output(output, beside, "input_text")]
    if not output.startswith("[{") or "base64" not in output:
        return None
    try:
        listed = msgspec.json.decode(output, type=known(list[_Text | _InputText | _Image | _InputImage]))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    parts = [one.text if isinstance(one, _Text | _InputText) else _inline_in(one) for one in listed]
    sound = [part for part in parts if part is not None]
    return sound if len(sound) == len(parts) and any(isinstance(part, Inline) for part in sound) else None


def _part_of(part: dict[str, Any]) -> str | Inline:
    kind, address = part["type"], part.get("image_url")
    if kind == "input_text":
        return str(part["text"])
    inline = _inline_in(_InputImage(address)) if isinstance(address, str) else None
    return inline or f"[An {kind} is left out]"


def _inline_in(image: _Image | _InputImage) -> Inline | None:
    if isinstance(image, _Image):
        return inline_of(f"data:{image.source.media_type};base64,{image.source.data}")
    return inline_of(image.image_url) if image.image_url[:11].lower() == "data:image/" else None


def text_of_output(parts: Iterable[str | Inline], takes: Container[str] = ()) -> str:
    """Return the texts of an output, and a text for each of its images whose media type is not in `takes`."""
    left = (part for part in parts if isinstance(part, str) or part.media_type not in takes)
    return "\n".join(part if isinstance(part, str) else f"[An image is left out: {part.media_type}]" for part in left)


def left_out(image: chat.Image, why: str) -> str:
    """Return the text that replaces an image that cannot be sent."""
    return f"[Image {image.id} is left out: {why}]"


def with_prefix(items: Iterable[chat.ChatItemEvent], prefix: str) -> list[chat.ChatItemEvent]:
    """
    Return the items with `prefix` in front of the last user message, as "{prefix}\\n\\nUser: {text}".

    Its text parts are joined by spaces into one, and its images follow it. Without a user message, or with an empty
    prefix, nothing changes. The result can be given to any of the conversions.
    """
    overlaid = list(items)
    for index in range(len(overlaid) - 1, -1, -1) if prefix else ():
        item = overlaid[index]
        if chat.is_user(item):
            overlaid[index] = _prefixed(item, prefix)
            break
    return overlaid


def _prefixed(message: chat.MessageAdded, prefix: str) -> chat.MessageAdded:
    text = " ".join(part for part in message.parts if isinstance(part, str))
    images = [part for part in message.parts if isinstance(part, chat.Image)]
    content = f"{prefix}\n\nUser: {text}"
    # The patch of an imported message fits only its original text.
    origin = None if message.origin is None else chat.Origin(starts=message.origin.starts)
    return msgspec.structs.replace(message, content=(content, *images) if images else content, origin=origin)
