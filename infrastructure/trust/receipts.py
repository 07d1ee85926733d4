"""
Receipts of erasures: proofs that something was erased, when and why, without the name of anybody.

A receipt names the event of the store that records the erasure, by its version and its digest, and what is left of each
erased event, by one hash of all seals. Somebody who knows the name of a user can find out whether the receipt is about
this user; from the receipt alone, nobody can. It may be signed with a key of the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from ...domain.erasure.events import STREAM, StoreErased, subject_hash
from ...domain.log.ports import LiveLog, StreamEnd
from .selection import Sealed

HASH_BYTES = 32
_encoder = msgspec.json.Encoder(order="sorted")


class Signer(Protocol):
    """A private key, such as an Ed25519PrivateKey of the `cryptography` package."""

    def sign(self, data: bytes, /) -> bytes:
        """Return the signature of some bytes."""


class Verifier(Protocol):
    """A public key, such as an Ed25519PublicKey of the `cryptography` package."""

    def verify(self, signature: bytes, data: bytes, /) -> None:
        """Raise an error if the signature is not that of these bytes."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """
    The receipt of an erasure. All texts of bytes are hexadecimal.

    `version` and `digest` are those of the last event of `store:erasures` when it was finished; `seals` is a hash of
    the seals of all erased events, in the order of streams and versions. `digest_of_receipt` covers all other fields
    but `signature`, which is empty without a key.
    """

    erasure: str
    scope: str
    why: str
    actor: str | None
    erased_at: float
    contexts: int
    events: int
    seals: str
    version: int
    digest: str
    subject: str
    salt: str
    unreached: tuple[str, ...]
    digest_of_receipt: str = ""
    signature: str = ""

    def covered(self) -> bytes:
        """Return the bytes that the digest and the signature cover: its JSON without these two, with sorted keys."""
        plain = msgspec.to_builtins(self)
        del plain["digest_of_receipt"], plain["signature"]
        return _encoder.encode(plain)

    def is_of_user(self, user: str) -> bool:
        """Return whether the receipt is about the erasure of this user."""
        return subject_hash(user, bytes.fromhex(self.salt)).hex() == self.subject

    def is_sound(self, log: LiveLog, key: Verifier | None = None) -> bool:
        """
        Return whether a log has the erasure as the receipt says; with a key, the signature must be right as well, else
        the key's own error is raised.
        """
        if blake2b(self.covered(), digest_size=HASH_BYTES).hexdigest() != self.digest_of_receipt:
            return False
        if key is not None:
            key.verify(bytes.fromhex(self.signature), self.covered())
        recorded = log.read(STREAM, until=self.version)
        if len(recorded) != self.version or recorded[-1].digest.hex() != self.digest:
            return False
        named = [
            (erased.stream, version, seal)
            for one in recorded
            if isinstance(one.event, StoreErased) and one.event.erasure == self.erasure
            for erased in one.event.erased
            for version, seal in erased.versions()
        ]
        return len(named) == self.events and _hash_of(named) == self.seals


def receipt_of(
    event: StoreErased,
    done: Sequence[Sealed],
    *,
    actor: str | None,
    erased_at: float,
    end: StreamEnd,
    unreached: tuple[str, ...],
    signer: Signer | None,
) -> Receipt:
    """Return the receipt of the erasure that `event` begins; `end` is the end of its stream when it was finished."""
    bare = Receipt(
        erasure=event.erasure,
        scope=event.scope,
        why=event.why,
        actor=actor,
        erased_at=erased_at,
        contexts=len({one.remnant.stream for one in done}),
        events=len(done),
        seals=_hash_of([(one.remnant.stream, one.remnant.version, one.seal) for one in done]),
        version=end.version,
        digest=end.digest.hex(),
        subject=event.subject.hex(),
        salt=event.salt.hex(),
        unreached=unreached,
    )
    covered = bare.covered()
    signature = b"" if signer is None else signer.sign(covered)
    digest = blake2b(covered, digest_size=HASH_BYTES).hexdigest()
    return msgspec.structs.replace(bare, digest_of_receipt=digest, signature=signature.hex())


def _hash_of(seals: Sequence[tuple[str, int, bytes]]) -> str:
    return blake2b(b"".join(seal for *_, seal in sorted(seals)), digest_size=HASH_BYTES).hexdigest()
