"""
The content of an item of a queue, a pool or a memory, in the form that an event stores.

A text is stored as text, other JSON in its canonical form, and an msgspec Struct, a pydantic model or a dataclass as
JSON beside the name of its class. In any other value, a mark stands for each part that JSON has no form for: its kind,
and its own JSON. A content is refused if reading it again would not give an equal value.
"""

from __future__ import annotations

import dataclasses
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

import msgspec

from .canonical import JSON_VALUES, canonical_json, parse_json, require_unicode
from .concurrency.known_types import known
from .errors import InvalidInputError, LimitExceededError
from .frozen import freeze
from .log.admission import JSON_DEPTH_MAX, Json, Total, is_deeper

# As for chats, where four characters count as a token; here four bytes do.
TOKEN_BYTES = 4
# Classes of stored contents in this process, also those that are not attributes of a module.
_CLASSES: WeakValueDictionary[str, type] = WeakValueDictionary()
# The type of a content with marks, and the keys of a mark: the name of its kind, and its JSON.
MARKED = "marks"
KIND, OF = "$", "of"
# The kinds of marks that have no codec: dicts whose keys are not all texts, members of enums, instances of classes.
DICT, ENUM, INSTANCE = "dict", "enum", "instance"
V = TypeVar("V")


class Codec(NamedTuple):
    """How values of a class are written as JSON, and read again; `name` is stored."""

    name: str
    cls: type
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def _in_order(values: Any) -> list[Any]:
    """Return the members of a set in an order of their own, so that equal sets have equal bytes."""
    return sorted(values, key=lambda value: canonical_json(_marked(value), what="a member of a set"))


# By the name, and by the class; `register_content` adds to them.
_CODECS = {
    codec.name: codec
    for codec in (
        Codec("datetime", datetime, datetime.isoformat, datetime.fromisoformat),
        Codec("date", date, date.isoformat, date.fromisoformat),
        Codec("time", time, time.isoformat, time.fromisoformat),
        Codec("timedelta", timedelta, lambda it: [it.days, it.seconds, it.microseconds], lambda it: timedelta(*it)),
        Codec("bytes", bytes, lambda it: b64encode(it).decode(), lambda it: b64decode(it, validate=True)),
        Codec("decimal", Decimal, str, Decimal),
        Codec("uuid", UUID, str, UUID),
        Codec("path", type(Path()), str, Path),
        Codec("tuple", tuple, list, tuple),
        Codec("set", set, _in_order, set),
        Codec("frozenset", frozenset, _in_order, frozenset),
    )
}
_CODEC_OF = {codec.cls: codec for codec in _CODECS.values()}


def register_content(cls: type[V], name: str, encode: Callable[[V], Any], decode: Callable[[Any], V]) -> None:
    """
    Let items and memories hold values of a class: `encode` returns JSON, or other content, and `decode` reads it.

    `name` is stored in events, so it must stay the same for ever. A program that has not registered it reads the value
    as data, `{"$": name, "of": JSON}`. Subclasses need a name of their own.

    A class that is defined again, as in a notebook, takes the name over.

    Raises:
        InvalidInputError: the name is empty, or another class has it.
    """
    known = _CODECS.get(require_unicode(name, "the name of a content"))
    is_taken = known is not None and _name_of(known.cls) != _name_of(cls)
    if not name or name in (DICT, ENUM, INSTANCE) or is_taken:
        raise InvalidInputError(f"the name {name!r} is empty or taken: give contents of {cls.__name__} another name")
    _CODECS[name] = _CODEC_OF[cls] = Codec(name, cls, encode, decode)


class Content(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """
    A text, or `json` in canonical form.

    `type` (`module:name`) is the class if the content is an instance of one, and `marks` if the JSON has marks. If it
    was erased, `erased` is the number of tokens that it had, together with the text beside it; totals keep this number.
    """

    text: str | None = None
    json: Json = b""
    type: str = ""
    erased: Total | None = None

    def require_admissible(self) -> None:
        """Raise InvalidInputError if it is both a text and JSON."""
        if self.text is not None and (self.json or self.type):
            raise InvalidInputError("content is a text or JSON, and not both")


def stored_content(value: Any, what: str = "content") -> Content:
    """
    Return `value` in the form that an event stores; `what` names it in the error.

    Raises:
        InvalidInputError: it holds a part that is neither JSON, nor a Struct, model or dataclass, nor of a class with a
            codec; or it is not equal when it is read again.
        LimitExceededError: its lists and dicts are nested too deep.
    """
    if isinstance(value, str):
        # A member of a str enum is a text, but its str() may differ from that text.
        return Content(text=require_unicode(value, what))
    if type(value) not in _CODEC_OF:
        if is_typed(value):
            return _stored_instance(value, what)
        data = _plain_json(value, what)
        if data is not None:
            return Content(json=data)
    return _stored_with_marks(value, what)


def _plain_json(value: Any, what: str) -> bytes | None:
    """Return the canonical form of a value that is JSON, or None."""
    try:
        data = _json(value, what)
    except InvalidInputError:
        return None
    return data if parse_json(data) == value else None


def _stored_with_marks(value: Any, what: str) -> Content:
    try:
        marked = _marked(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{what} cannot be stored as JSON: {error}; `register_content` says how to store instances of a class"
        ) from error
    content = Content(json=_json(marked, what), type=MARKED)
    return _require_same(content, value, what, lambda back: _marked(back) == marked)


def _require_same(content: Content, value: Any, what: str, is_same: Callable[[Any], Any]) -> Content:
    """Return a content, if `is_same` is true for the value that is read from it."""
    try:
        back = restored_content(content)
        is_back = is_same(back)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} would not come back as it is: {error}") from error
    if not is_back:
        raise InvalidInputError(f"{what} would not come back as it is: {value!r} is read as {back!r}")
    return content


def _marked(value: Any) -> Any:
    """
    Return a value as JSON, with marks for the parts that JSON has no form for.

    Raises:
        TypeError: there is no codec for the class of a part.
    """
    kind = type(value)
    if kind in JSON_VALUES:
        return value
    codec = _CODEC_OF.get(kind)
    if codec is not None:
        plain = codec.encode(value)
        return {KIND: codec.name, OF: [_marked(one) for one in plain] if type(plain) is list else _marked(plain)}
    if isinstance(value, Enum):
        _CLASSES[_name_of(kind)] = kind
        return {KIND: ENUM, OF: [_name_of(kind), value.name]}
    if is_typed(value):
        stored = _stored_instance(value, f"an instance of {kind.__name__}")
        return {KIND: INSTANCE, OF: [stored.type, parse_json(stored.json)]}
    if isinstance(value, list):
        return [_marked(one) for one in value]
    if isinstance(value, dict):
        if KIND not in value and all(type(key) is str for key in value):
            return {key: _marked(one) for key, one in value.items()}
        pairs = [[_marked(key), _marked(one)] for key, one in value.items()]
        return {KIND: DICT, OF: sorted(pairs, key=lambda pair: canonical_json(pair[0], what="a key"))}
    raise TypeError(f"the type {kind.__name__} is not JSON")


def _unmarked(data: Any) -> Any:
    """Return the value whose JSON with marks is `data`; a mark of an unknown kind or enum is returned as it is."""
    if isinstance(data, list):
        return [_unmarked(one) for one in data]
    if not isinstance(data, dict):
        return data
    if KIND not in data:
        return {key: _unmarked(one) for key, one in data.items()}
    kind, of = data[KIND], data[OF]
    if kind == DICT:
        return {_unmarked(key): _unmarked(one) for key, one in of}
    if kind == INSTANCE:
        return typed_content(*of)
    if kind == ENUM:
        cls = _class_named(of[0])
        return cls[of[1]] if cls is not None and issubclass(cls, Enum) else data
    codec = _CODECS.get(kind)
    return data if codec is None else codec.decode(_unmarked(of))


def _name_of(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


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
    if content.erased is not None:
        return content.erased
    size = len(content.text.encode() if content.text is not None else content.json)
    return (size + len(beside.encode())) // TOKEN_BYTES


def loaded_class(module: str, name: str) -> Any:
    """Return a class of a package, or () if that is not imported: then no object can be an instance of it."""
    return getattr(sys.modules.get(module), name, ())


def is_typed(value: object) -> bool:
    """Return whether `value` is an instance whose class is stored by name."""
    is_dataclass = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return is_dataclass or isinstance(value, (msgspec.Struct, loaded_class("pydantic", "BaseModel")))


def typed_content(type_name: str, value: Any) -> Any:
    """
    Return the instance of the class `type_name` whose JSON is `value`.

    Raises:
        InvalidInputError: as for `restored_content`.
    """
    if type_name == MARKED:
        try:
            return _unmarked(value)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            raise InvalidInputError(f"stored content cannot be read: {error}") from error
    cls = _class_named(type_name)
    if cls is None:
        module = type_name.partition(":")[0]
        raise InvalidInputError(f"content is of the class {type_name!r}, which is not loaded: import {module} first")
    try:
        if issubclass(cls, loaded_class("pydantic", "BaseModel")):
            model: Any = cls
            return model.model_validate(value)
        return msgspec.convert(value, known(cls), strict=False)
    except (ValueError, TypeError, NameError) as error:
        raise InvalidInputError(f"stored content no longer fits its class {type_name!r}: {error}") from error


def _stored_instance(value: Any, what: str) -> Content:
    cls = type(value)
    name = _name_of(cls)
    try:
        plain = _plain_instance(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} cannot be stored as JSON: {error}") from error
    content = Content(json=_json(plain, what), type=name)
    _CLASSES[name] = cls
    by_identity: object = object.__eq__
    if cls.__eq__ is by_identity:
        # It is never equal to its copy, so the stored forms are compared.
        return _require_same(content, value, what, lambda back: _plain_instance(back) == plain)
    return _require_same(content, value, what, lambda back: back == value)


def _plain_instance(value: Any) -> Any:
    """Return the form in which an instance is stored; a model uses its aliases, as in validation."""
    if isinstance(value, loaded_class("pydantic", "BaseModel")):
        return value.model_dump(mode="json", by_alias=True)
    return msgspec.to_builtins(value)


def _json(value: Any, what: str) -> bytes:
    data = canonical_json(value, what=what)
    # The depth is at most the number of brackets, and most contents have few, so the exact check is rare.
    if data.count(b"[") + data.count(b"{") > JSON_DEPTH_MAX and is_deeper(value, JSON_DEPTH_MAX):
        raise LimitExceededError(f"the depth of {what}", allowed=JSON_DEPTH_MAX, actual=JSON_DEPTH_MAX + 1)
    return data


def _class_named(type_name: str) -> type | None:
    """Return a class of the imported modules, or None; a module is never imported because an event names it."""
    if (known := _CLASSES.get(type_name)) is not None:
        return known
    module, _, path = type_name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        return None
    by_name = (msgspec.Struct, loaded_class("pydantic", "BaseModel"), Enum)
    return found if dataclasses.is_dataclass(found) or issubclass(found, by_name) else None
