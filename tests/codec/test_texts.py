"""Large texts are taken out of a payload, stored once, and put in place again."""

import hashlib
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.log.envelope import encode_payload
from refold.infrastructure.log.compression import Compression, no_dictionary
from refold.infrastructure.log.large_texts import (
    LARGE_TEXT_BYTES,
    damage_of,
    extract_texts,
    insert_references,
    resolve_references,
)

from ..domain.chat_events import said
from ..domain.strategies import PROPERTY

LARGE = st.sampled_from(["x" * LARGE_TEXT_BYTES, "ü" * (LARGE_TEXT_BYTES // 2), "\U0001f600" * 2_000, "xy" * 9_000])
SMALL = st.sampled_from(["", "x", "x" * (LARGE_TEXT_BYTES - 1), "ü" * (LARGE_TEXT_BYTES // 2 - 1)])
LEAF: st.SearchStrategy[Any] = LARGE | SMALL | st.integers() | st.floats(allow_nan=False) | st.none() | st.binary()
LEAF = LEAF.filter(lambda value: not isinstance(value, int) or -(2**63) <= value < 2**63)
PLAIN = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def store_of(texts: list[Any]) -> dict[int, str]:
    """Return the texts by the keys that a database might have given them."""
    return {7 + 1_000 * number: text.data.decode() for number, text in enumerate(texts)}


@PROPERTY
@given(PLAIN)
def test_out_and_in_again(value: Any) -> None:
    """The payload is byte for byte what it was, so its digest is too."""
    payload = msgspec.msgpack.encode(value)
    plain, texts = extract_texts(payload)
    stored = store_of(texts)

    referring = insert_references(plain, list(stored))

    assert resolve_references(referring, stored.__getitem__) == payload
    assert all(len(text.data) >= LARGE_TEXT_BYTES for text in texts)
    assert len(referring) <= len(payload)


@pytest.mark.parametrize(("text", "count"), [("x" * 4_095, 0), ("x" * 4_096, 1), ("ü" * 2_048, 1), ("ü" * 2_047, 0)])
def test_what_is_large(text: str, count: int) -> None:
    """4,096 bytes of UTF-8, not characters."""
    assert len(extract_texts(encode_payload(said(text=text)))[1]) == count


def test_texts_in_parts() -> None:
    """Each part on its own; the digest is that of the text's UTF-8."""
    one, other = "x" * 5_000, "ü" * 5_000
    _, texts = extract_texts(encode_payload(said(text=(one, "small", other))))

    assert [text.data.decode() for text in texts] == [one, other]
    assert texts[1].digest == hashlib.blake2b(other.encode(), digest_size=32).digest()


def test_the_form_of_a_reference_is_kept_for_ever() -> None:
    """A msgpack extension of type 1 that holds the key in 8 bytes, big-endian."""
    plain, _ = extract_texts(msgspec.msgpack.encode(["x" * 5_000]))

    assert insert_references(plain, [258]).hex() == "91d7010000000000000102"


def test_other_extensions_are_left_alone() -> None:
    """Only type 1 is a reference."""
    payload = msgspec.msgpack.encode([msgspec.msgpack.Ext(5, b"abc")])

    assert resolve_references(payload, lambda key: "never") == payload


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a text", None),
        (b"\xff", r"^blob 7 is damaged: 'utf-8' codec can't decode byte 0xff in position 0"),
    ],
)
def test_the_damage_of_a_text(data: bytes, says: str | None) -> None:
    """Bytes that have their hash and are no UTF-8 are damage that names the text."""
    compression = Compression(no_dictionary())
    damage = damage_of(compression, compression.shrink(data), hashlib.blake2b(data, digest_size=32).digest(), "blob 7")

    assert (damage is None) == (says is None)
    assert says is None or re.match(says, str(damage))
