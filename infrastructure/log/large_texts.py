"""
Large texts are stored once: the event holds a reference, and a separate row holds the text.

In a stored payload a reference is a msgpack extension of type 1 whose data is the row's integer key. The digest of an
event covers the payload with the text in place: a reference is only a form of storage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ...domain.errors import DamagedError
from .compression import Compression

LARGE_TEXT_BYTES = 4_096
REFERENCE = 1
_ENCODER = msgspec.msgpack.Encoder()


class LargeText(NamedTuple):
    """A text to be stored once; `digest` is blake2b-256 of its UTF-8."""

    digest: bytes
    data: bytes


class _Placeholder(NamedTuple):
    number: int


def extract_texts(payload: bytes) -> tuple[Any, list[LargeText]]:
    """Return the plain payload with placeholders for its large texts, and these texts."""
    texts: list[LargeText] = []

    def take(value: Any) -> Any:
        data = value.encode() if isinstance(value, str) else b""
        if len(data) < LARGE_TEXT_BYTES:
            return value
        texts.append(LargeText(hashlib.blake2b(data, digest_size=32).digest(), data))
        return _Placeholder(len(texts) - 1)

    return _mapped(msgspec.msgpack.decode(payload), take), texts


def insert_references(plain: Any, keys: list[int]) -> bytes:
    """Return the payload with references, given the keys under which its texts are stored."""

    def refer(value: Any) -> Any:
        if isinstance(value, _Placeholder):
            return msgspec.msgpack.Ext(REFERENCE, keys[value.number].to_bytes(8, "big"))
        return value

    return _ENCODER.encode(_mapped(plain, refer))


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a payload with the result of `change` in the place of each value that holds no others."""
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in value]
    if isinstance(value, dict):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    return change(value)


def text_of(data: bytes, digest: bytes, what: str) -> str:
    """
    Return the text whose UTF-8 is `data`, after checking that its hash is `digest`.

    Raises:
        DamagedError: the hash is another one; `what` names the text in the error.
    """
    if hashlib.blake2b(data, digest_size=32).digest() != digest:
        raise DamagedError(what, "its bytes do not match its hash")
    return data.decode()


def damage_of(compression: Compression, stored: bytes, digest: bytes, what: str) -> DamagedError | None:
    """Return the error of a stored large text; None if it is sound."""
    try:
        text_of(compression.expand(stored, what), digest, what)
    except DamagedError as error:
        return error
    except UnicodeDecodeError as error:
        return DamagedError(what, str(error))
    return None


def references_in(payload: bytes) -> list[int]:
    """Return the keys of the texts that a stored payload refers to."""
    keys: list[int] = []

    def collect(key: int) -> str:
        keys.append(key)
        return ""

    resolve_references(payload, collect)
    return keys


def resolve_references(payload: bytes, fetch: Callable[[int], str]) -> bytes:
    """Return the payload with its texts in place, as it was before `extract_texts`."""

    def resolve(code: int, data: memoryview) -> Any:
        return fetch(int.from_bytes(data, "big")) if code == REFERENCE else msgspec.msgpack.Ext(code, bytes(data))

    return _ENCODER.encode(msgspec.msgpack.decode(payload, ext_hook=resolve))
