"""
An encrypted log: a log whose events are sealed before they reach the log below, and opened when they come back.

The log below holds one type of event, `Sealed`: the id of a data key, and the ciphertext of an event with its envelope.
So its tables, blocks, digests and checks are those of every log. A digest covers the ciphertext, and is keyed with the
key of the store: the chain verifies without the data keys, also after one was destroyed. The stream and the version
are bound to the ciphertext: moved to another place, it does not open (docs/adr/0033).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag

from ...domain.canonical import FINGERPRINT_BYTES
from ...domain.concurrency.promises import Settled
from ...domain.erasure.events import STREAM as ERASURES
from ...domain.erasure.events import ErasureEvent
from ...domain.errors import (
    ConcurrencyError,
    DamagedError,
    IdempotencyError,
    InvalidInputError,
    KeyMissingError,
    KeyUnavailableError,
    LogWentBackError,
    Lost,
    RefoldError,
)
from ...domain.log.admission import admitted
from ...domain.log.envelope import (
    NO_META,
    Event,
    Meta,
    RecordedEvent,
    Undecodable,
    encode_payload,
    require_payload_size,
)
from ...domain.log.log_over import LogOver
from ...domain.log.ports import (
    ANY_VERSION,
    KeyRow,
    LiveLog,
    NewEvents,
    Page,
    Pending,
    Range,
    Receipt,
    Remnant,
    StreamEnd,
)
from ...domain.moments import StoreCopied
from ...domain.positions import BEGINNING, Moment
from ..log.codec import CODEC, TAG_FIELD, Codec, decode_meta, encode_meta
from ..log.compression import PLAIN_MARK, Compression, no_dictionary
from .key_ring import KNOWN_SECONDS, DataKey, KeyRing
from .keys import NONCE_BYTES
from .tables import STORE

# How often an append at any version is tried again because another writer was faster.
ATTEMPTS_MAX = 64
SUBJECTS_MAX = 100_000
PAGE_EVENTS = 2_048
# An append waits so long for its turn at most: for the lock of a file (BUSY_TIMEOUT_SECONDS), and for a server
# (PATIENCE_SECONDS).
IN_FILE_SECONDS, ON_SERVER_SECONDS = 10.0, 30.0
META_SIZE_BYTES = 3
# To expand shorter payloads one by one takes longer than to decrypt them, and ciphertexts cannot be packed together.
COMPRESSED_MIN = 4_096
METAS_MAX = 10_000


class Sealed(msgspec.Struct, frozen=True, gc=False, tag_field="t", tag="sealed.v1"):
    """An event of an encrypted log: the id of its data key, and the nonce and the ciphertext."""

    k: str
    c: bytes


# Events of a store that are no secret. The log below has no key, and must read what an erasure names.
PLAIN_EVENTS = StoreCopied | ErasureEvent
TAGS = [one.__struct_config__.tag for one in (Sealed, *PLAIN_EVENTS.__args__)]


class _SealedCodec(Codec):
    """Decodes sealed events, and those of a store that are no secret."""

    def decode_plain(self, plain: dict[str, Any], what: str) -> Event:
        if plain.get(TAG_FIELD) not in TAGS:
            # A writer without a key recorded it.
            raise DamagedError(what, "it is not encrypted, and this store is")
        return super().decode_plain(plain, what)


SEALED_CODEC = _SealedCodec(Sealed | PLAIN_EVENTS)


class _Receipts(Pending[list[Receipt]]):
    """The receipts of an append to the log below, made receipts of the events that this log was given."""

    def __init__(self, below: Pending[list[Receipt]], made: Callable[[list[Receipt]], list[Receipt]], log: SealedLog):
        self._below, self._made, self._log = below, made, log
        self._receipts: list[Receipt] | None = None

    def result(self, timeout: float | None = None) -> list[Receipt]:
        if self._receipts is None:
            with self._log.opening_errors():
                self._receipts = self._made(self._below.result(timeout))
        return self._receipts

    def exception(self, timeout: float | None = None) -> BaseException | None:
        stored = self._below.exception(timeout)
        try:
            self.result()
        except BaseException as error:
            if error is not stored and not isinstance(error, Exception):
                # It interrupted this thread, and says nothing about the append.
                raise
            return error
        return None

    def done(self) -> bool:
        return self._below.done()

    def add_done_callback(self, call: Callable[[Any], object], /) -> None:
        self._below.add_done_callback(lambda _: call(self))


class SealedLog(LogOver):
    """A log over another one, whose codec is SEALED_CODEC; `ring` has the data keys, `codec` decodes what is opened."""

    def __init__(self, below: LiveLog, ring: KeyRing, codec: Codec = CODEC) -> None:
        super().__init__(below)
        self.ring = ring
        self._codec, self._marking_codec = codec, codec.marking()
        self._compression = Compression(no_dictionary())
        self._subjects: dict[str, str] = {}
        self._metas: dict[tuple[str, bytes], Meta] = {}

    # Writing

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        if any(new.expected_version == ANY_VERSION for new in batch):
            return self._append_anywhere(batch)
        try:
            metas = [self._with_key(new) for new in batch]
            sealed = [self._sealed(new, key) for new, (key, _) in zip(batch, metas, strict=True)]
        except UnicodeEncodeError as error:
            return Settled(None, InvalidInputError(f"an event cannot be stored: {error}"))
        except (RefoldError, ValueError, TypeError, OverflowError) as error:
            return Settled(None, error)

        def made(receipts: list[Receipt]) -> list[Receipt]:
            pairs = zip(batch, metas, receipts, strict=True)
            return [self._receipt(new, own, receipt) for new, (_, own), receipt in pairs]

        return _Receipts(self.below.append(sealed, wait=wait), made, self)

    def _append_anywhere(self, batch: Sequence[NewEvents]) -> Pending[list[Receipt]]:
        """Append to the ends that streams have now: versions are bound to ciphertexts."""
        for attempt in range(ATTEMPTS_MAX):
            placed = [
                msgspec.structs.replace(new, expected_version=self.below.head(new.stream))
                if new.expected_version == ANY_VERSION
                else new
                for new in batch
            ]
            appended = self.append(placed)
            error = appended.exception()
            if not isinstance(error, ConcurrencyError) or attempt == ATTEMPTS_MAX - 1:
                return appended
            if any(new.expected_version not in (ANY_VERSION, self.below.head(new.stream)) for new in batch):
                return appended
        raise AssertionError("the loop returns")

    def _with_key(self, new: NewEvents) -> tuple[DataKey, list[Meta]]:
        """Return the key for events, and their metas as they are read later."""
        if new.stream == ERASURES:
            return self.ring.store, list(new.metas)
        key = self.ring.newest(self._subject_for(new))
        return key, [_with_key_id(meta, key.id) for meta in new.metas]

    def _sealed(self, new: NewEvents, key: DataKey) -> NewEvents:
        if new.stream == ERASURES:
            return new
        version, outer = new.expected_version, NO_META
        if new.idempotency_key is not None:
            if any(meta.idempotency_key != new.idempotency_key for meta in new.metas):
                # The log below finds the same fault, and names what was given.
                return new
            outer = self._outer(new.stream, new.idempotency_key, new.fingerprint)
        events = []
        for event, meta in zip(new.events, new.metas, strict=True):
            version += 1
            payload = require_payload_size(admitted(event, new.stream))
            events.append(self._seal(key, f"{new.stream}@{version}", encode_meta(meta) or b"", payload))
        return msgspec.structs.replace(
            new, events=tuple(events), metas=(outer,) * len(events), idempotency_key=outer.idempotency_key
        )

    def _seal(self, key: DataKey, reference: str, meta: bytes, payload: bytes, nonce: bytes = b"") -> Sealed:
        packed = self._compression.shrink(payload) if len(payload) >= COMPRESSED_MIN else PLAIN_MARK + payload
        plain = len(meta).to_bytes(META_SIZE_BYTES, "big") + meta + packed
        return Sealed(key.id, key.sealed(plain, reference.encode(), nonce))

    def _receipt(self, new: NewEvents, metas: Sequence[Meta], receipt: Receipt) -> Receipt:
        if receipt.replayed:
            return Receipt(tuple(self._recorded(receipt.events)), True)
        given = zip(receipt.events, new.events, metas, strict=True)
        return Receipt(tuple([_renewed(one, event, meta) for one, event, meta in given]))

    def _outer(self, stream: str, key: str, fingerprint: bytes | None) -> Meta:
        """Return the meta that the log below needs to find a repetition."""
        # Only the first half is compared: the other one tells the calls of a transaction apart.
        hashed = fingerprint and self.ring.hashed_bytes(fingerprint[:FINGERPRINT_BYTES])
        return Meta(idempotency_key=self.ring.hashed(stream, key), fingerprint=hashed)

    # Subjects

    def _subject_for(self, new: NewEvents) -> str:
        subject = self._subjects.get(new.stream)
        if subject is None:
            if new.expected_version == 0 and new.events:
                # Not remembered before it is recorded: another writer may open the stream for another user.
                return self._subject_of_first(new.events[0], new.root or new.stream)
            subject = self.subject_of(new.stream)
        return subject

    def _subject_of_first(self, event: Any, root: str) -> str:
        """Return the subject of a stream that begins with an event: its user, its parent's subject, or its root."""
        user, parent = getattr(event, "user", None), getattr(event, "parent", None)
        if user:
            return self.user_subject(user)
        return self.subject_of(parent) if isinstance(parent, str) else self.ring.hashed("root", root)

    def user_subject(self, user: str) -> str:
        """Return the subject of the contexts of a user."""
        return self.ring.hashed("user", user)

    def subject_of(self, stream: str) -> str:
        """Return the subject whose key encrypts the events of a stream."""
        subject = self._subjects.get(stream)
        if subject is None:
            first = next(iter(self.below.read_events(stream, until=1)), None)
            if not isinstance(first, Sealed):
                return STORE
            if len(self._subjects) >= SUBJECTS_MAX:
                self._subjects.clear()
            subject = self._subjects[stream] = self.ring.subject_of(first.k)
        return subject

    # Erasing

    def erase(self, remnants: Sequence[Remnant], new: Sequence[NewEvents]) -> list[Receipt]:
        stored = [one._replace(event=SEALED_CODEC.decode(one.payload, "an event that is erased")) for one in remnants]
        return self.below.erase(stored, new)

    def sealed_payload(self, stream: str, version: int, meta: Meta, payload: bytes) -> tuple[Meta, bytes]:
        key, outer = self.ring.newest(self.subject_of(stream)), NO_META
        if meta.idempotency_key is not None:
            outer = self._outer(stream, meta.idempotency_key, meta.fingerprint)
        stored = encode_meta(_with_key_id(meta, None)) or b""
        return outer, encode_payload(self._seal(key, f"{stream}@{version}", stored, payload))

    def retire_keys(self, user: str) -> None:
        self.ring.retire(self.user_subject(user))

    def close_retired_keys(self) -> None:
        """
        Close retired keys: from now on, the log refuses events that are encrypted with them.

        It waits first: another process may have encrypted an event with such a key, and wait for its turn to write it.
        The event of a process that is stopped for longer is refused.
        """
        keys = self.ring.retired(are_closed=False)
        if not keys:
            return
        if hasattr(self.below, "database"):
            time.sleep(KNOWN_SECONDS + (ON_SERVER_SECONDS if self.has_slices else IN_FILE_SECONDS))
        self.ring.close(keys)

    def destroy_retired_keys(self) -> int:
        self.close_retired_keys()
        keys = self.ring.retired(are_closed=True)
        if not keys:
            return 0
        used: set[str] = set()
        moment = BEGINNING
        while (page := self.below.read_all(after=moment, limit=PAGE_EVENTS, undecodable=True)).events:
            used.update(one.event.k for one in page.events if isinstance(one.event, Sealed))
            moment = page.moment
        return self.ring.destroy(row for row in keys if row.id not in used)

    def streams_of_user(self, user: str) -> tuple[set[str], set[str]]:
        """
        Return the streams that are encrypted with keys of a user, and the streams whose user nobody can find out: their
        keys are gone, or were changed.
        """
        subject, owned, lost = self.user_subject(user), set[str](), set[str]()
        for stream in self.streams():
            try:
                if self.subject_of(stream) == subject:
                    owned.add(stream)
            except (DamagedError, KeyMissingError):
                lost.add(stream)
        return owned, lost

    def read_without_keys(self, stream: str, *, after: int, until: int) -> list[RecordedEvent]:
        stored = self.below.read(stream, after=after, until=until)
        keys = {one.event.k for one in stored if isinstance(one.event, Sealed)}
        gone = {key for key in keys if not self.ring.has(key)}
        return [
            self._marked(one) if getattr(one.event, "k", "") in gone else next(self._recorded([one])) for one in stored
        ]

    def newest_key(self, user: str) -> str:
        return self.ring.newest(self.user_subject(user)).id

    def scrub(self) -> list[str]:
        kept = (
            f"{one.what}, if its key is to be destroyed: it cannot be read ({one.reason})" for one in self.ring.faults()
        )
        return [*self.below.scrub(), *kept]

    # Copying

    def event_in(self, payload: bytes, reference: str) -> Event:
        """Return the event in a payload of the log below, which is the one of this `stream@version`."""
        sealed = SEALED_CODEC.decode(payload, f"event {reference}")
        return self._events([sealed], [reference])[0]

    def payload_with(self, event: Event, payload: bytes, reference: str) -> bytes:
        """Return such a payload with another event; its meta stays, and its key. The result is the same each time."""
        sealed: Any = SEALED_CODEC.decode(payload, f"event {reference}")
        (plain,) = self._decrypted([sealed], [reference])
        meta = plain[META_SIZE_BYTES : META_SIZE_BYTES + int.from_bytes(plain[:META_SIZE_BYTES], "big")]
        inner = encode_payload(event)
        # Made from all that is encrypted, so no other text gets this nonce; a resumed copy compares payloads.
        nonce = self.ring.hashed_bytes(reference.encode() + b" " + meta + inner)[:NONCE_BYTES]
        return encode_payload(self._seal(self.ring.key(sealed.k), reference, meta, inner, nonce))

    # Opening

    @contextmanager
    def opening_errors(self) -> Iterator[None]:
        """Decrypt the events in errors of the log below."""
        try:
            yield
        except IdempotencyError as error:
            recorded = list(self._recorded(error.recorded))
            key = recorded[0].meta.idempotency_key if recorded else None
            raise IdempotencyError(error.stream, key or error.key, recorded, refused=error.refused) from error
        except LogWentBackError as error:
            error.lost = tuple(map(self._lost, error.lost))
            raise

    def _lost(self, lost: Lost) -> Lost:
        if not isinstance(lost.event, Sealed):
            return lost
        try:
            return Lost(lost.reference, self._events([lost.event], [lost.reference])[0])
        except (DamagedError, KeyUnavailableError):
            return Lost(lost.reference)

    def _events(self, events: Sequence[Event], references: Sequence[str]) -> list[Event]:
        return self._decoded(self._decrypted(events, references), references)

    def _recorded(self, recorded: Sequence[RecordedEvent]) -> Iterator[RecordedEvent]:
        references = [one.reference for one in recorded]
        plains = self._decrypted([one.event for one in recorded], references)
        events = self._decoded(plains, references)
        for one, plain, event, reference in zip(recorded, plains, events, references, strict=True):
            yield _renewed(one, event, self._meta(one, plain, reference))

    def _decrypted(self, events: Sequence[Event], references: Sequence[str]) -> list[bytes]:
        """Return the plain texts of sealed events: the size of the meta, the meta, and the payload as it was packed."""
        ciphers: dict[str, Callable[[bytes, bytes, bytes], bytes]] = {}
        plains: list[bytes] = []
        # Every read passes here: what can be looked up once is not looked up for each event.
        for event, reference in zip(events, references, strict=True):
            if not isinstance(event, Sealed):
                plains.append(bytes(META_SIZE_BYTES) + PLAIN_MARK + encode_payload(event))
                continue
            decrypt = ciphers.get(event.k) or ciphers.setdefault(event.k, self.ring.key(event.k).cipher.decrypt)
            data = event.c
            try:
                plains.append(decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], reference.encode()))
            except (InvalidTag, ValueError) as error:
                raise DamagedError(f"event {reference}", f"it does not open with its key {event.k!r}") from error
        return plains

    def _decoded(self, plains: Sequence[bytes], references: Sequence[str]) -> list[Event]:
        def name(place: int) -> str:
            return f"event {references[place]}"

        return self._codec.decode_many(self._payloads(plains, name), name)

    def _payloads(self, plains: Sequence[bytes], name: Callable[[int], str]) -> list[bytes]:
        # Here and for metas without a call for each event, which takes a hundredth of the time of a read.
        packed = [one[META_SIZE_BYTES + int.from_bytes(one[:META_SIZE_BYTES], "big") :] for one in plains]
        return self._compression.expand_many(packed, name)

    def _meta(self, recorded: RecordedEvent, plain: bytes, reference: str) -> Meta:
        if not isinstance(recorded.event, Sealed):
            return recorded.meta
        key_id = recorded.event.k
        stored = plain[META_SIZE_BYTES : META_SIZE_BYTES + int.from_bytes(plain[:META_SIZE_BYTES], "big")]
        known = self._metas.get((key_id, stored))
        if known is None:
            meta = decode_meta(stored or None, f"event {reference}")
            known = _with_key_id(meta, key_id)
            if len(self._metas) >= METAS_MAX:
                self._metas.clear()
            # Most events of a page have one of a few metas; an idempotency key comes once.
            if meta.idempotency_key is None:
                self._metas[key_id, stored] = known
        return known

    def _marked(self, recorded: RecordedEvent) -> RecordedEvent:
        """Return an event opened, or one that says why it cannot be read."""
        if isinstance(recorded.event, Undecodable):
            return recorded
        what = f"event {recorded.reference}"
        try:
            plains = self._decrypted([recorded.event], [recorded.reference])
            (payload,) = self._payloads(plains, lambda _: what)
            meta = self._meta(recorded, plains[0], recorded.reference)
            return _renewed(recorded, self._marking_codec.decode(payload, what), meta)
        except (DamagedError, KeyUnavailableError) as error:
            reason = error.reason if isinstance(error, DamagedError) else str(error)
            return _renewed(recorded, Undecodable(reason), NO_META)

    # Reading

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[RecordedEvent]:
        with self.opening_errors():
            return [*self._recorded(self.below.read(stream, after=after, until=until, known=known))]

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        with self.opening_errors():
            events = self.below.read_events(stream, after=after, until=until, known=known)
            return self._events(events, _references(stream, after, len(events)))

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        lots = self.below.read_ranges(ranges)
        named = [_references(one.stream, one.after, len(lot)) for one, lot in zip(ranges, lots, strict=True)]
        events = iter(
            self._events([event for lot in lots for event in lot], [name for names in named for name in names])
        )
        return [[next(events) for _ in lot] for lot in lots]

    def recorded_under(self, stream: str, key: str) -> list[RecordedEvent]:
        return [*self._recorded(self.below.recorded_under(stream, self.ring.hashed(stream, key)))]

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        with self.opening_errors():
            page = self.below.read_all(after=after, limit=limit, until=until, undecodable=undecodable)
        try:
            return Page([*self._recorded(page.events)], page.moment)
        except (DamagedError, KeyUnavailableError):
            if not undecodable:
                raise
            # Projections skip marked events. They must not skip events because a key file is missing for a moment.
            self.ring.require_masters()
            return Page([*map(self._marked, page.events)], page.moment)

    def snapshot(self, stream: str) -> bytes | None:
        packed = self.below.snapshot(stream)
        if packed is None:
            return None
        # Nothing else says whether a snapshot is whole: one that does not open counts as none.
        try:
            key = self.ring.key(packed[1 : 1 + packed[0]].decode())
            return key.opened(packed[1 + packed[0] :], _snapshot_of(stream))
        except (InvalidTag, ValueError, LookupError, KeyUnavailableError, DamagedError):
            return None

    def keep_snapshot(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        self.below.keep_snapshot(stream, lambda: self._sealed_snapshot(stream, pack()))

    def _sealed_snapshot(self, stream: str, packed: bytes | None) -> bytes | None:
        if packed is None:
            return None
        key = self.ring.newest(self.subject_of(stream))
        name = key.id.encode()
        return bytes([len(name)]) + name + key.sealed(packed, _snapshot_of(stream))

    def idempotency_keys(self) -> Iterable[KeyRow]:
        for row in self.below.idempotency_keys():
            try:
                recorded = self.read(row.stream, after=row.first_version - 1, until=row.first_version)
            except (DamagedError, KeyUnavailableError):
                recorded = []
            key = recorded[0].meta.idempotency_key if recorded else None
            is_its = key is not None and self.ring.hashed(row.stream, key) == row.key
            yield row._replace(key=key) if key is not None and is_its else row

    # What the log below answers alone

    @property
    def database(self) -> Any:
        """The database of the log below."""
        return getattr(self.below, "database")  # noqa: B009 - the log in memory has none

    def streams(self, prefix: str = "", *, limit: int | None = None) -> list[str]:
        return self.below.streams(prefix, limit=limit)

    def streams_with_snapshot(self) -> Iterable[str]:
        return self.below.streams_with_snapshot()

    def doubtful_streams(self) -> Iterable[str]:
        return self.below.doubtful_streams()


def _with_key_id(meta: Meta, key_id: str | None) -> Meta:
    # A third of the time of `structs.replace`, and every append does this.
    return Meta(meta.actor, meta.correlation_id, meta.causation, meta.idempotency_key, key_id, meta.fingerprint)


def _renewed(recorded: RecordedEvent, event: Event, meta: Meta) -> RecordedEvent:
    one = recorded
    return RecordedEvent(one.stream, one.version, one.position, one.recorded_at, event, meta, one.digest)


def _references(stream: str, after: int, count: int) -> list[str]:
    first = max(after, 0) + 1
    return [f"{stream}@{version}" for version in range(first, first + count)]


def _snapshot_of(stream: str) -> bytes:
    return f"snapshot of {stream}".encode()
