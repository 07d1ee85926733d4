"""
The content of an item of a queue, a pool or a memory, in the form that an event stores.

A text is stored as text, other JSON in its canonical form, and an msgspec Struct, a pydantic model or a dataclass as
JSON beside the name of its class. A content is refused if reading it again would not give an equal value.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from pydantic import BaseModel, ValidationError

from .canonical import canonical_json, parse_json, require_unicode
from .errors import InvalidInputError, LimitExceededError
from .frozen import freeze
from .log.admission import JSON_DEPTH_MAX, Json, is_deeper

# As for chats, where four characters count as a token; here four bytes do.
TOKEN_BYTES = 4
# Classes of stored contents in this process, also those that are not attributes of a module.
_CLASSES: WeakValueDictionary[str, type] = WeakValueDictionary()


class Content(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A text, or `json` in canonical form; `type` (`module:name`) is the class if the content is an instance of one."""

    text: str | None = None
    json: Json = b""
    type: str = ""

    def require_admissible(self) -> None:
        """Raise InvalidInputError if it is both a text and JSON."""
        if self.text is not None and (self.json or self.type):
            raise InvalidInputError("content is a text or JSON, and not both")


def stored_content(value: Any, what: str = "content") -> Content:
    """
    Return `value` in the form that an event stores; `what` names it in the error.

    Raises:
        InvalidInputError: it is neither JSON nor a Struct, model or dataclass that is equal when it is read again.
        LimitExceededError: its lists and dicts are nested too deep.
    """
    if isinstance(value, str):
        # A member of a str enum is a text, but its str() may differ from that text.
        return Content(text=str.__str__(require_unicode(value, what)))
    if is_typed(value):
        return _stored_instance(value, what)
    data = _json(value, what)
    if parse_json(data) != value:
        raise InvalidInputError(
            f"{what} is {type(value).__name__} and would not come back as it is: take texts, numbers, lists, dicts, "
            "or a Struct, pydantic model or dataclass"
        )
    return Content(json=data)


def restored_content(content: Content) -> Any:
    """
    Return the stored value: JSON is read-only at every depth, any other value is created anew at each call.

    Raises:
        InvalidInputError: its class was not imported in this process, or the stored data no longer fits the class.
    """
    if content.text is not None:
        return content.text
    value = parse_json(content.json)
    return typed_content(content.type, value) if content.type else freeze(value)


def plain_content(content: Content) -> Any:
    """Return the stored JSON value; its class is not needed."""
    return content.text if content.text is not None else parse_json(content.json)


def estimated_tokens(content: Content, beside: str) -> int:
    """Return the estimated tokens of a content and of the text beside it: four stored bytes make one."""
    size = len(content.text.encode() if content.text is not None else content.json)
    return (size + len(beside.encode())) // TOKEN_BYTES


def is_typed(value: object) -> bool:
    """Return whether `value` is an instance whose class is stored by name."""
    is_dataclass = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_dataclass or isinstance(value, msgspec.Struct | BaseModel)


def typed_content(type_name: str, value: Any) -> Any:
    """
    Return the instance of the class `type_name` whose JSON is `value`.

    Raises:
        InvalidInputError: as for `restored_content`.
    """
    cls = _CLASSES.get(type_name) or _imported(type_name)
    if cls is None:
        module = type_name.partition(":")[0]
        raise InvalidInputError(f"content is of the class {type_name!r}, which is not loaded: import {module} first")
    try:
        if issubclass(cls, BaseModel):
            return cls.model_validate(value)
        return msgspec.convert(value, cls, strict=False)
    except (ValidationError, msgspec.ValidationError, TypeError, NameError) as error:
        raise InvalidInputError(f"stored content no longer fits its class {type_name!r}: {error}") from error


def _stored_instance(value: Any, what: str) -> Content:
    cls = type(value)
    name = f"{cls.__module__}:{cls.__qualname__}"
    try:
        plain = _plain_instance(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} cannot be stored as JSON: {error}") from error
    content = Content(json=_json(plain, what), type=name)
    _CLASSES[name] = cls
    try:
        back = restored_content(content)
    except InvalidInputError as error:
        raise InvalidInputError(f"{what} would not come back as it is: {error}") from error
    # A class that compares by identity is never equal to its copy, so the stored forms are compared.
    by_identity: object = object.__eq__
    is_same = _plain_instance(back) == plain if cls.__eq__ is by_identity else back == value
    if not is_same:
        raise InvalidInputError(f"{what} would not come back as it is: {value!r} is read as {back!r}")
    return content


def _plain_instance(value: Any) -> Any:
    """Return the form in which an instance is stored; a model uses its aliases, as in validation."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    return msgspec.to_builtins(value)


def _json(value: Any, what: str) -> bytes:
    data = canonical_json(value, what=what)
    # The depth is at most the number of brackets, and most contents have few, so the exact check is rare.
    if data.count(b"[") + data.count(b"{") > JSON_DEPTH_MAX and is_deeper(value, JSON_DEPTH_MAX):
        raise LimitExceededError(f"the depth of {what}", allowed=JSON_DEPTH_MAX, actual=JSON_DEPTH_MAX + 1)
    return data


def _imported(type_name: str) -> type | None:
    """Find a class among the imported modules; a module is never imported because an event names it."""
    module, _, path = type_name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and (dataclasses.is_dataclass(found) or _is_stored_by_name(found)) else None


def _is_stored_by_name(cls: type) -> bool:
    return issubclass(cls, msgspec.Struct | BaseModel)
