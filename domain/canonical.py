"""
Canonical JSON: one text for each value, with sorted keys, no blanks, and UTF-8.

Open JSON in events is stored in this form, so that equal values have equal bytes and equal digests. Calls are hashed in
it, so that two different calls under the same idempotency key are detected.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from .errors import DamagedError, InvalidInputError

FINGERPRINT_BYTES = 16
# An index entry of PostgreSQL can have 2,704 bytes, which include other columns.
KEY_BYTES_MAX = 1_000
ID_BYTES_MAX = 255
# The types of JSON values that hold no others.
JSON_VALUES = frozenset({str, int, float, bool, type(None)})
# Python may refuse to write an integer of so many bits: it has 4,299 digits or more.
LONG_INTEGER_BITS = 14_280
# Made once, as `json.dumps` would make one for each call.
_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_IN_ORDER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_decode = msgspec.json.Decoder().decode


class Without:
    """
    A Struct as its caller gave it.

    Fields that were generated for the call, such as ids and times, are left out, and other fields may have another
    form.
    """

    __slots__ = ("fields", "others", "value")

    def __init__(self, value: msgspec.Struct, *fields: str, **others: object) -> None:
        self.value, self.fields, self.others = value, fields, others


def fingerprint(call: object) -> bytes:
    """
    Return the hash of a call.

    The call is a command, which is hashed by its name and its fields, or a value that represents the call, or a
    function without arguments that returns that value. The hash is stored in the log, so it must stay the same in all
    versions of Refold: tests/golden has examples. A field with its default value is left out, so that commands may get
    new fields.

    Raises:
        InvalidInputError: the call holds a value that is not JSON.
    """
    given = call() if callable(call) else call
    named = Without(given) if isinstance(given, msgspec.Struct) else given
    try:
        plain = msgspec.to_builtins(named, order="sorted", enc_hook=_as_given)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"a call with an idempotency key holds what cannot be stored as JSON: {error}"
        ) from error
    return hashlib.blake2b(text.encode(), digest_size=FINGERPRINT_BYTES).digest()


def _as_given(value: Any) -> Any:
    if not isinstance(value, Without):
        raise TypeError(f"{type(value).__name__} is no JSON")
    given, left_out = value.value, value.fields
    names, defaults = given.__struct_fields__, given.__struct_defaults__
    default_of = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    said = ((name, getattr(given, name)) for name in names if name not in left_out)
    fields = {name: held for name, held in said if name not in default_of or held != default_of[name]}
    # Events keep their tags for ever; commands have no tags, so they keep their names.
    return [given.__struct_config__.tag or type(given).__name__, {**fields, **value.others}]


def canonical_json(value: Any, *, what: str) -> bytes:
    """
    Return `value` as canonical JSON; `what` names it in the error.

    Raises:
        InvalidInputError: the value is not JSON (a NaN, a lone surrogate, another type).
    """
    return _encoded(value, _SORTED, what)


def json_in_order(value: Any, *, what: str) -> bytes:
    """
    Return `value` as JSON with its keys in their own order, so that it comes back as it was given.

    `what` names it in the error.

    Raises:
        InvalidInputError: the value is not JSON (a NaN, a lone surrogate, another type).
    """
    return _encoded(value, _IN_ORDER, what)


def _encoded(value: Any, encoder: json.JSONEncoder, what: str) -> bytes:
    try:
        _require_text_keys(value, what)
        return encoder.encode(value).encode()
    except InvalidInputError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} cannot be stored as JSON: {error}") from error


def _require_text_keys(value: Any, what: str) -> None:
    """JSON would silently convert other keys to texts, and two of them might become the same text."""
    # Most values are neither lists nor dicts. Without a call for each of them, this takes a third of the time.
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidInputError(f"{what} has the key {key!r}: keys of JSON objects are texts")
            if type(inner) not in JSON_VALUES:
                _require_text_keys(inner, what)
    elif isinstance(value, list | tuple):
        for inner in value:
            if type(inner) not in JSON_VALUES:
                _require_text_keys(inner, what)


def is_json(value: Any) -> bool:
    """
    Return whether a value is JSON and comes back as the same Python value: no tuple, no subclass, no NaN.

    An instance of a subclass of `str` is JSON if its class has a true `is_plain_text`: it comes back as a plain text.
    """
    kind = type(value)
    if kind is str:
        return value.isascii() or is_unicode(value)
    if kind is float:
        return bool(value - value == 0)
    if kind is int:
        return bool(value.bit_length() < LONG_INTEGER_BITS)
    if kind in JSON_VALUES:
        return True
    if kind is list:
        return all(map(is_json, value))
    if kind is not dict:
        return issubclass(kind, str) and getattr(kind, "is_plain_text", False) and is_unicode(value)
    # A loop, since a generator would cost as much as the check of a value. ASCII texts are checked without a call.
    for key, inner in value.items():
        if type(key) is not str or not (key.isascii() or is_unicode(key)):
            return False
        if not (type(inner) is str and inner.isascii()) and not is_json(inner):
            return False
    return True


def require_json(value: Any, *, what: str) -> None:
    """
    Check what `canonical_json` checks, in a quarter of its time: nearly all values are plain, and need not be encoded.

    Raises:
        InvalidInputError: as `canonical_json`.
    """
    try:
        is_plain = is_json(value)
    except RecursionError:
        is_plain = False
    if not is_plain:
        canonical_json(value, what=what)


def parse_json(data: bytes) -> Any:
    """
    Return the value of canonical JSON; None for no bytes.

    Raises:
        DamagedError: the bytes are not JSON, for example because another program wrote them.
    """
    if not data:
        return None
    try:
        # Several times as quick as `json`, with the same values of all canonical JSON.
        return _decode(data)
    except ValueError:
        # Only `json` reads some texts that other programs may have written, such as lone surrogates.
        pass
    try:
        # A text, since `json` would guess the encoding of bytes.
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise DamagedError("stored JSON", str(error)) from error


def require_given_key(key: object) -> str:
    """
    Return the idempotency key of a call, if it is valid. An empty key is refused: its variable was not filled in.

    Raises:
        InvalidInputError: it is empty, or no log accepts it.
    """
    if key == "":
        raise InvalidInputError("the idempotency key is empty: give each call a key of its own, or none")
    return require_key(key)


def require_key(key: object) -> str:
    """
    Return an idempotency key, if a log accepts it. It may be empty: earlier versions accepted empty keys.

    Raises:
        InvalidInputError: it is not a text, is longer than KEY_BYTES_MAX, or holds a lone surrogate or a NUL.
    """
    text = require_short(require_unicode(key, "the idempotency key"), "the idempotency key", KEY_BYTES_MAX)
    if "\0" in text:
        raise InvalidInputError(f"the idempotency key {text!r} holds a NUL: leave it out")
    return text


def require_short(text: str, what: str, bytes_max: int = ID_BYTES_MAX) -> str:
    """
    Return `text`, if it is not too long for an id or another name; `what` names it in the error.

    Raises:
        InvalidInputError: it has more than `bytes_max` bytes of UTF-8.
    """
    # A character has at most four bytes, so most texts need not be encoded.
    if len(text) * 4 > bytes_max and len(text.encode(errors="replace")) > bytes_max:
        raise InvalidInputError(f"{what} {text!r} is longer than {bytes_max:,} bytes of UTF-8: take a shorter one")
    return text


def is_unicode(text: str) -> bool:
    """Return whether a text can be written as UTF-8: it holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_unicode(text: object, what: str) -> str:
    """
    Return `text`, if it can be written as UTF-8; `what` names it in the error. A member of an enum of texts, and any
    other object of a subclass of `str`, becomes a plain text.

    Raises:
        InvalidInputError: it is not a text, or holds a lone surrogate; the message gives its index.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} is {text!r}: it is a text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{what} holds a lone surrogate (U+{ord(text[error.start]):04X}) at index {error.start}, "
            "which is not Unicode text: replace it first"
        ) from error
    return text if type(text) is str else str.__str__(text)
