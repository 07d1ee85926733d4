"""
The envelope of an event: its place, when and why it was recorded, and the digest that chains its stream.

The digest is blake2b-256 over the msgpack array `[previous digest, stream, version, slice, number, recorded_at, actor,
correlation_id, causation, idempotency_key, key_id, payload]`, with the fingerprint of the call at the end if there is
one. This format is fixed: tests/golden holds its bytes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import msgspec

from ..canonical import require_unicode
from ..errors import LimitExceededError
from ..ids import require_reference
from ..positions import Position

Event = msgspec.Struct


class TaggedEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="t"):
    """Base of the events of contexts and of the store: a msgpack map with the tag under `t`."""


# A quarter of what SQLite and PostgreSQL allow for one value, because reading keeps several copies of it in memory.
PAYLOAD_BYTES_MAX = 256 * 1024 * 1024
META_BYTES_MAX = 65_536
NO_DIGEST = b"\x00" * 32
CODE_BYTES = 32
PAYLOAD = msgspec.msgpack.Encoder()
_encode, _digest = PAYLOAD.encode, methodcaller("digest")
_FINGERPRINT = attrgetter("fingerprint")


class Meta(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """
    The actor of an event and its reason. `causation` is `stream@version` of the event that it follows from.

    `fingerprint` identifies the call that recorded the event, if it has an idempotency key (see
    `canonical.fingerprint`).
    """

    actor: str | None = None
    correlation_id: str | None = None
    causation: str | None = None
    idempotency_key: str | None = None
    key_id: str | None = None
    fingerprint: bytes | None = None


NO_META = Meta()
# In the order of the digest's format; the fingerprint comes after the payload, if there is one.
_META_FIELDS = [attrgetter(name) for name in Meta.__struct_fields__ if name != "fingerprint"]


# A read may make tens of thousands of events. They are in no reference cycle, so the collector can skip them.
class RecordedEvent(msgspec.Struct, frozen=True, gc=False):
    """
    An event with its envelope, as the log returns it.

    `version` counts from 1 within `stream`, without holes; `recorded_at` is in microseconds since 1970, UTC, and never
    falls from one position to the next.
    """

    stream: str
    version: int
    position: Position
    recorded_at: int
    event: Any
    meta: Meta
    digest: bytes

    @property
    def reference(self) -> str:
        """`stream@version`, by which other events name this one as their cause."""
        return f"{self.stream}@{self.version}"


class Undecodable(msgspec.Struct, frozen=True, gc=False, tag="undecodable"):
    """The place of an event that cannot be decoded, and the reason; so that the other events can still be read."""

    reason: str


def encode_payload(event: Any) -> bytes:
    """Return the canonical bytes of an event: its Struct in msgpack, the tag first, defaults left out."""
    return _encode(event)


def require_payload_size(payload: bytes) -> bytes:
    """
    Return an encoded event if it is not too large for a log.

    Raises:
        LimitExceededError: it has more than PAYLOAD_BYTES_MAX bytes.
    """
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise LimitExceededError("PAYLOAD_BYTES_MAX", allowed=PAYLOAD_BYTES_MAX, actual=len(payload))
    return payload


def require_meta_size(encoded: bytes) -> bytes:
    """
    Return an encoded meta if it is not too large for a log.

    Raises:
        LimitExceededError: it has more than META_BYTES_MAX bytes.
    """
    if len(encoded) > META_BYTES_MAX:
        raise LimitExceededError("META_BYTES_MAX", allowed=META_BYTES_MAX, actual=len(encoded))
    return encoded


class Chain:
    """
    Computes the digests of a log. Those of a store with a chain key are keyed: nobody without the key computes one.

    The key is set before the first event is read, and never changes; without one the format is that of
    docs/adr/0008. docs/adr/0035 says where the key is kept.
    """

    def __init__(self) -> None:
        self.use(b"")

    def use(self, key: bytes, ring: Any = None) -> None:
        """Compute keyed digests from now on; `ring` has the data keys that the key comes from, if they are here."""
        self.key, self.ring = key, ring
        # Every append passes `digest`; blake2b without a key is the same as with an empty one.
        self._hash = partial(hashlib.blake2b, digest_size=32, key=key)

    def digest(
        self,
        previous: bytes,
        stream: str,
        version: int,
        position: Position,
        recorded_at: int,
        meta: Meta,
        payload: bytes,
    ) -> bytes:
        """Return the digest of an event: it covers envelope, payload and the digest before it in its stream."""
        return self._hash(covered(previous, stream, version, position, recorded_at, meta, payload)).digest()

    def hashed(self, data: bytes) -> bytes:
        """Return the hash of bytes, as digests are made."""
        return self._hash(data).digest()

    # Snapshots are beside the events, and no digest covers them.

    def snapshot_code(self, stream: str, packed: bytes) -> bytes:
        data = stream.encode() + b"\0" + packed
        return hashlib.blake2b(data, digest_size=CODE_BYTES, key=self.key, person=b"refold snapshot").digest()

    def stored_snapshot(self, stream: str, packed: bytes) -> bytes:
        """Return a snapshot in the form in which it is stored: with a key, its code comes first."""
        return self.snapshot_code(stream, packed) + packed if self.key else packed

    def snapshot_in(self, stream: str, stored: bytes) -> bytes | None:
        """Return the snapshot from its stored form; None if it was made without the key."""
        if not self.key:
            return stored
        code, packed = stored[:CODE_BYTES], stored[CODE_BYTES:]
        return packed if hmac.compare_digest(code, self.snapshot_code(stream, packed)) else None

    def digests(
        self,
        previous: Iterable[bytes],
        streams: Iterable[str],
        versions: Iterable[int],
        positions: tuple[Iterable[int], Iterable[int]],
        times: Iterable[int],
        metas: Iterable[Meta],
        payloads: Iterable[bytes | memoryview],
    ) -> Iterator[bytes]:
        """
        Return the `digest` of each of many events, given by columns; `positions` are slices and numbers.

        The result is as long as the shortest column.
        """
        # Every event that is read passes here: without a loop in Python, this takes two thirds of the time.
        listed = list(metas)
        envelopes = (map(get, listed) for get in _META_FIELDS)
        fields: Iterable[tuple[Any, ...]] = zip(
            previous, streams, versions, *positions, times, *envelopes, payloads, strict=False
        )
        if any(map(_FINGERPRINT, listed)):
            fields = (
                some if meta.fingerprint is None else (*some, meta.fingerprint)
                for some, meta in zip(fields, listed, strict=False)
            )
        return map(_digest, map(self._hash, map(_encode, fields)))


def covered(
    previous: bytes,
    stream: str,
    version: int,
    position: Position,
    recorded_at: int,
    meta: Meta,
    payload: bytes,
) -> bytes:
    """Return the bytes of which the digest of an event is the hash."""
    fields = (
        previous, stream, version, position.slice, position.number, recorded_at,
        meta.actor, meta.correlation_id, meta.causation, meta.idempotency_key, meta.key_id, payload,
    )  # fmt: skip
    if meta.fingerprint is not None:
        return _encode((*fields, meta.fingerprint))
    return _encode(fields)


# The chain of every log that has no key.
UNKEYED = Chain()


# The remedy for a call that names another agent than that of the context.
NAME_THE_WRITER = "leave it out; refold.acting(actor=...) names another writer"
_ACTING: ContextVar[Meta] = ContextVar("refold_acting", default=NO_META)


@contextmanager
def acting(
    *, actor: str | None = None, correlation_id: str | None = None, because: RecordedEvent | str | None = None
) -> Iterator[None]:
    """
    Set the actor, the trace and the cause of all events that are recorded within the block.

    An inner block takes the values that it does not set from the outer one. `because` is a recorded event, or its
    reference `stream@version`. It may be of another store, so it is not checked that the event exists. The values
    follow the flow of control, also through `await` (contextvars).

    Raises:
        InvalidInputError: the actor or the trace is no text, or `because` does not have the form of a reference.
    """
    actor = require_unicode(actor or "", "the actor")
    correlation_id = require_unicode(correlation_id or "", "the correlation id")
    outer = _ACTING.get()
    cause = because.reference if isinstance(because, RecordedEvent) else because
    if cause is not None:
        cause = require_reference(cause, "because")
    inner = Meta(
        actor=actor or outer.actor,
        correlation_id=correlation_id or outer.correlation_id,
        causation=cause or outer.causation,
    )
    token = _ACTING.set(inner)
    try:
        yield
    finally:
        _ACTING.reset(token)


def acting_actor() -> str | None:
    """Return the actor that `acting` set for this flow of control, if it did."""
    return _ACTING.get().actor


class _Correlation:
    """The source of the correlation ids of events for which none is set; for all threads of the process."""

    current: Callable[[], str | None] | None = None


def correlate_by(current: Callable[[], str | None] | None) -> None:
    """Ask `current` for the correlation id of each event for which none is set, from now on; None ends it."""
    _Correlation.current = current


def current_meta(*, default_actor: str | None, idempotency_key: str | None, fingerprint: bytes | None = None) -> Meta:
    """Return the meta of an event that is recorded now: its actor, trace, cause and key."""
    now = _ACTING.get()
    asked = _Correlation.current
    if asked is not None and now.correlation_id is None and (found := asked()) is not None:
        now = msgspec.structs.replace(now, correlation_id=found)
    if now is NO_META and idempotency_key is None and fingerprint is None:
        return Meta(default_actor) if default_actor else NO_META
    actor = now.actor or default_actor
    return Meta(actor, now.correlation_id, now.causation, idempotency_key, fingerprint=fingerprint)


class Trace(NamedTuple):
    """The actor to use where no other is set, and the trace of everything that is recorded."""

    actor: str | None = None
    correlation_id: str | None = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Set actor and trace of all events that are recorded within the block."""
        if self == NO_TRACE:
            yield
            return
        outer = current_meta(default_actor=self.actor, idempotency_key=None)
        with acting(actor=outer.actor, correlation_id=self.correlation_id):
            yield


NO_TRACE = Trace()
