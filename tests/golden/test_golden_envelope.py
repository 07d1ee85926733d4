"""What a digest covers, and the digest, as they were first written."""

import hashlib
import json
from typing import Any

import msgspec
import pytest

from refold.domain.canonical import fingerprint
from refold.domain.log.envelope import NO_DIGEST, UNKEYED
from refold.infrastructure.log.codec import decode_meta, encode_meta

from .files import ENVELOPE_FILE, envelope_content, view
from .known import CALLS, ENVELOPES

EXAMPLES = json.loads(ENVELOPE_FILE.read_text(encoding="utf-8"))["examples"]
NUMBERS = range(len(ENVELOPES))


def test_every_envelope_has_an_example() -> None:
    """The file holds what is known, no more and no less."""
    assert json.loads(ENVELOPE_FILE.read_text(encoding="utf-8")) == envelope_content()


@pytest.mark.parametrize("number", NUMBERS)
def test_the_digest_is_as_ever(number: int) -> None:
    """The same envelope and payload give the same digest."""
    assert UNKEYED.digest(**ENVELOPES[number]).hex() == EXAMPLES[number]["digest"]


@pytest.mark.parametrize("number", NUMBERS)
def test_what_the_digest_covers(number: int) -> None:
    """blake2b-256 over the msgpack array that the file holds, which anybody can check without Refold."""
    covered = bytes.fromhex(EXAMPLES[number]["covered"])

    assert hashlib.blake2b(covered, digest_size=32).hexdigest() == EXAMPLES[number]["digest"]
    assert view(msgspec.msgpack.decode(covered)) == EXAMPLES[number]["view"]


@pytest.mark.parametrize("number", NUMBERS)
def test_the_stored_meta_is_as_ever(number: int) -> None:
    """Encoded and decoded; one that says nothing is not stored."""
    meta, stored = ENVELOPES[number]["meta"], EXAMPLES[number]["stored_meta"]

    assert encode_meta(meta) == (None if stored is None else bytes.fromhex(stored))
    assert decode_meta(None if stored is None else bytes.fromhex(stored)) == meta


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("previous", b"\x01" * 32),
        ("stream", "chat:b"),
        ("version", 3),
        ("recorded_at", 2),
        ("payload", b"\x00"),
        *(("position", type(ENVELOPES[2]["position"])(*place)) for place in ((1, 2), (0, 3))),
        *(
            ("meta", msgspec.structs.replace(ENVELOPES[2]["meta"], **{name: "x"}))
            for name in ("actor", "correlation_id", "causation", "idempotency_key", "key_id")
        ),
        ("meta", msgspec.structs.replace(ENVELOPES[2]["meta"], fingerprint=b"")),
    ],
)
def test_nothing_is_left_uncovered(field: str, value: Any) -> None:
    """Another value of any field gives another digest."""
    given = ENVELOPES[2]

    assert UNKEYED.digest(**{**given, field: value}) != UNKEYED.digest(**given)


def test_a_stream_begins_with_zeros() -> None:
    """The digest before the first is 32 bytes of nothing."""
    assert bytes(32) == NO_DIGEST


@pytest.mark.parametrize("name", CALLS)
def test_a_fingerprint_is_as_ever(name: str) -> None:
    """A call that is repeated under another version of Refold must still be known for the same."""
    call, expected = CALLS[name]

    assert fingerprint(call).hex() == expected
    assert fingerprint(lambda: call).hex() == expected
