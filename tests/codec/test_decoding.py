"""Events to bytes and back, and bytes that are no event."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold.domain.errors import DamagedError
from refold.domain.log.envelope import Meta, encode_payload
from refold.infrastructure.log.codec import CODEC, decode_meta, encode_meta, tag_of

from ..domain.strategies import EVENT, MAYBE, POOL, PROPERTY

META = st.builds(Meta, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE)


@PROPERTY
@given(EVENT)
def test_an_event_is_decoded_as_it_was_encoded(event: Any) -> None:
    """decode(encode(e)) == e."""
    assert CODEC.decode(encode_payload(event), "it") == event


@PROPERTY
@given(EVENT)
def test_equal_events_have_equal_bytes(event: Any) -> None:
    """Encoding what was decoded gives the same bytes, so the digest can be checked from either."""
    payload = encode_payload(event)

    assert encode_payload(CODEC.decode(payload, "it")) == payload


@PROPERTY
@given(META)
def test_a_meta_is_decoded_as_it_was_encoded(meta: Meta) -> None:
    """One that says nothing is no bytes."""
    assert decode_meta(encode_meta(meta)) == meta
    assert (encode_meta(meta) is None) == (meta == Meta())


@PROPERTY
@given(st.binary(max_size=40))
@example(b"")
@example(b"\x90")
@example(b"\xc1")
@example(b"\x81\xa1t")
@example(b"\x81\xa1t\xc0")
@example(b"\x81\x01\x01")
@example(b"\x81\xa1t\xa1\xff")
@example(b"\x81\xc4\x01a\x01")
@example(b"\x81\x81\x01\x01\x01")
@example(b"\x81\x90\x01")
@example(b"\xd6\xff\xff\xff\xff\xff")
@example(b"\x91" * 5_000)
def test_bytes_that_are_no_event(payload: bytes) -> None:
    """DamagedError, whatever the bytes; no other error gets out."""
    with pytest.raises(DamagedError, match="event chat:a@1"):
        CODEC.decode(payload, "event chat:a@1")


@pytest.mark.parametrize("event", POOL, ids=tag_of)
def test_every_changed_byte_is_an_error_of_ours_or_an_event(event: Any) -> None:
    """Damage that still decodes is found by the digest; damage that does not is a DamagedError."""
    payload = encode_payload(event)
    for place in range(len(payload)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = payload[:place] + bytes([payload[place] ^ flip]) + payload[place + 1 :]
            with suppress(DamagedError):
                assert isinstance(CODEC.decode(damaged, "event chat:a@1"), msgspec.Struct)


@pytest.mark.parametrize("event", POOL, ids=tag_of)
def test_every_cut_is_an_error_of_ours(event: Any) -> None:
    """An event that ends too early is damaged."""
    payload = encode_payload(event)
    for length in range(len(payload)):
        with pytest.raises(DamagedError):
            CODEC.decode(payload[:length], "it")


def test_something_behind_an_event_is_damage() -> None:
    """Nothing may follow."""
    with pytest.raises(DamagedError):
        CODEC.decode(encode_payload(POOL[0]) + b"\x00", "it")
