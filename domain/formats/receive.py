"""The common part of receiving: plain data of client objects, fields and places in errors, items, computed ids."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..arguments import has_no_data
from ..canonical import JSON_VALUES, canonical_json, require_unicode
from ..chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded
from ..clock import System
from ..errors import InvalidInputError

KINDS: dict[type, str] = {
    dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number",
    type(None): "null",
}  # fmt: skip
# The fields by which messages and their parts are recognised. A client's class may have them as defaults.
TELLING = ("type", "role")
_EXPECTED: dict[type, str] = {str: "text", dict: "an object", list: "a list"}


def kind_of(value: Any) -> str:
    """Return the JSON name of a value's type."""
    return KINDS.get(type(value), type(value).__name__)


def at_field(where: str, path: str) -> str:
    """Return the place of a field, given by its path: `messages[3].content`, or `line 4, field content`."""
    if not path:
        return where
    is_path = "[" in where.rpartition(", ")[2]
    return f"{where}.{path}" if is_path else f"{where}, field {path}"


def place_of(places: Sequence[str], name: str, index: int) -> str:
    """Return the place of an entry in errors: its own name in `places`, or else like `messages[3]`."""
    return places[index] if places else f"{name}[{index}]"


def as_plain_data(value: Any) -> Any:
    """
    Return a value as plain data: objects of clients as the fields that were set in them, at any depth.

    An object has `model_dump` (pydantic) or `to_dict`, or is a dataclass. Any other value stays unchanged.

    Raises:
        InvalidInputError: it is nested deeper than Python can read.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise InvalidInputError("its lists and dicts are nested too deep") from None


def _plain(value: Any) -> Any:
    # Most values are texts, and to ask whether one is a Mapping costs more than all the rest.
    kind = type(value)
    if kind in JSON_VALUES or isinstance(value, str | int | float | type):
        return value
    if kind is dict or isinstance(value, Mapping):
        return {name: inner if type(inner) in JSON_VALUES else _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "model_dump"):
        plain = value.model_dump(mode="json", exclude_unset=True)
    elif hasattr(value, "to_dict"):
        plain = value.to_dict()
    elif dataclasses.is_dataclass(value):
        plain = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    else:
        return value
    unset = {name: getattr(value, name, None) for name in TELLING if isinstance(plain, dict) and name not in plain}
    return {**plain, **{name: said for name, said in unset.items() if isinstance(said, str)}} if unset else plain


class IdsOfPlaces:
    """Ids that are the same at every import of the same messages."""

    def __init__(self, context_id: str) -> None:
        self._context_id = context_id
        self._taken: set[str] = set()

    def made(self, prefix: str, place: int | str, part: int) -> str:
        """
        Return the id of a part of the message at `place`.

        Two hashes of 12 digits can be equal by chance; then the next attempt is used.
        """
        made, attempt = "", 0
        while not made or made in self._taken:
            source = f"{self._context_id}\0{place}\0{part}\0{attempt}".encode()
            made = prefix + hashlib.blake2b(source, digest_size=6).hexdigest()
            attempt += 1
        self._taken.add(made)
        return made


def field_of(value: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    """
    Return a field that must be there and of a type.

    Raises:
        InvalidInputError: it is missing or of another type; the message says where, what was found and what was
            expected.
    """
    found = value.get(name)
    if isinstance(found, kind):
        return found
    fault = f"found {kind_of(found)}" if name in value else "missing"
    raise InvalidInputError(f"{at_field(where, name)}: {fault}, expected {_EXPECTED[kind]}")


class Fields:
    """An object of a message: `where` names the message, `path` the object within it."""

    def __init__(self, where: str, value: Any, path: str = "") -> None:
        self.where, self.path = where, path
        if not isinstance(value, dict):
            raise self.unexpected("", value, "an object")
        self.value: dict[str, Any] = value

    def unexpected(self, name: str, found: Any, expected: str) -> InvalidInputError:
        """Return the error for a field whose value has another type than `expected`."""
        return self.error(name, f"found {kind_of(found)}", expected)

    def unexpected_value(self, name: str, found: Any, expected: str) -> InvalidInputError:
        """Return the error for a field whose value is not among the `expected` ones."""
        return self.error(name, f"found {found!r}", expected)

    def error(self, name: str, fault: str, expected: str) -> InvalidInputError:
        path = f"{self.path}.{name}".strip(".").replace(".[", "[")
        return InvalidInputError(f"{at_field(self.where, path)}: {fault}, expected {expected}")

    def text(self, name: str) -> str:
        """Return a field that must be text."""
        if name not in self.value:
            raise self.error(name, "missing", "text")
        if not isinstance(self.value[name], str):
            raise self.unexpected(name, self.value[name], "text")
        return str(self.value[name])

    def several(self, name: str) -> list[Any]:
        """Return a field that is a list; an empty one if it is missing or null."""
        found = self.value.get(name)
        if found is not None and not isinstance(found, list):
            raise self.unexpected(name, found, "a list")
        return found or []

    def inner(self, name: str) -> Fields:
        """Return a field that is an object; an empty one if it is missing or null."""
        found = self.value.get(name)
        return Fields(self.where, {} if found is None else found, f"{self.path}.{name}".strip("."))


def as_text(value: Any, where: str) -> str:
    """Return a value as text: text unchanged, any other value as JSON with its keys in their order."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where} cannot be kept as JSON: {error}") from error


class Receiver:
    """Collects the items of one conversation; all get the same time, and the first one `first_id` if that is given."""

    def __init__(self, system: System, first_id: str | None = None) -> None:
        self._system, self._first_id = system, first_id
        self._at = system.now()
        self.items: list[ChatItemEvent] = []

    def say(self, role: str, content: str | Sequence[str | Image], extra: dict[str, Any], where: str) -> None:
        """Add a message; `extra` holds the data of the message besides its content."""
        parts = (content,) if isinstance(content, str) else content
        for part in parts:
            require_unicode(part if isinstance(part, str) else part.image, where)
        self.items.append(
            MessageAdded(
                id=self._item_id("msg_"),
                created_at=self._at,
                role=role,
                content=content if isinstance(content, str) else tuple(content),
                extra=canonical_json(extra, what=where) if extra else b"",
            )
        )

    def _item_id(self, prefix: str) -> str:
        given, self._first_id = self._first_id, None
        return given or self._system.new_id(prefix)

    def image(self, url: str) -> Image | None:
        """Return an image part; None for a data URL without data, which no item has."""
        return None if has_no_data(url) else Image(id=self._system.new_id("img_"), image=url)

    def call(self, name: str, arguments: Any, call_id: str | None, metadata: dict[str, Any], where: str) -> str:
        """Add a call and return its id; without an id a new one is generated."""
        call_id = require_unicode(call_id, where) if call_id else self._system.new_id("call_")
        self.items.append(
            FunctionCalled(
                id=self._item_id("call_"),
                created_at=self._at,
                name=require_unicode(name, where),
                arguments=require_unicode(as_text(arguments, where), where),
                call_id=call_id,
                metadata=canonical_json(metadata, what=where) if metadata else b"",
            )
        )
        return call_id

    def answer(self, name: str, output: str, call_id: str | None, *, is_error: bool, where: str) -> None:
        """Add an output; without a call id it gets a new id, which no call has."""
        self.items.append(
            FunctionReturned(
                id=self._item_id("output_"),
                created_at=self._at,
                name=require_unicode(name, where),
                output=require_unicode(output, where),
                call_id=require_unicode(call_id, where) if call_id else self._system.new_id("call_"),
                is_error=is_error,
            )
        )
