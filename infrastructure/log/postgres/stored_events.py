"""
Opening rows: checking, expanding, decoding.

Every event is checked against its digest before it leaves this module; the same bytes are checked once in a process. A
hash over 64 events together recognises the same bytes, which takes a quarter of the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise, repeat
from struct import Struct
from typing import NamedTuple

from ....domain.erasure.events import seal_of
from ....domain.log.envelope import NO_META, Chain, Event, Meta, RecordedEvent
from ....domain.positions import Position
from ..codec import Codec, decode_meta
from ..compression import REFERENCES, Compression
from ..evidence import Evidence
from ..large_texts import references_in, resolve_references
from ..row_faults import CheckedBefore, require_digests

COLUMNS = "slice, stream_key, version, position, recorded_at, meta, payload, digest"
PLACE = "SELECT slice, key FROM stream WHERE id = $1"
METAS_MAX = 10_000
RUN = 64
_place_and_sizes = Struct("!qqiI").pack
# Slice, stream, version, position, time, meta, stored payload, digest.
Row = tuple[int, int, int, int, int, bytes | None, bytes, bytes]
# Takes the slices and keys of large texts; returns the texts by slice and key.
FetchTexts = Callable[[set[tuple[int, int]]], Mapping[int, Mapping[int, str]]]


class Place(NamedTuple):
    """The place of a stream: its slice, and its integer key there."""

    slice: int
    key: int


class Origin(NamedTuple):
    """The origin of rows of a stream: its id, and the digest before its first row."""

    stream: str
    before: bytes


class Opener:
    """
    Makes events from rows; `fetch_texts` fetches the large texts that they refer to, `is_erased` says whether an
    erasure names the seal of an event.
    """

    def __init__(
        self,
        codec: Codec,
        compression: Compression,
        fetch_texts: FetchTexts,
        is_erased: Callable[[str, int, bytes], bool],
        chain: Chain,
    ) -> None:
        self._chain = chain
        self._codec = codec
        self._compression = compression
        self._fetch_texts = fetch_texts
        self._is_erased = is_erased
        self._metas: dict[bytes, Meta] = {}
        self._known = CheckedBefore()
        self.evidence: Evidence | None = None

    def recorded(self, rows: Sequence[Row], origins: Mapping[Place, Origin]) -> list[RecordedEvent]:
        """
        Return rows as recorded events; rows of one stream are consecutive versions, but rows of others may be between
        them.

        Raises:
            DamagedError: an event was changed.
        """
        names: dict[tuple[int, ...], str] = {place: origin.stream for place, origin in origins.items()}
        name = _namer(rows, names)
        payloads = self._payloads(rows, name)
        self._check_all(rows, payloads, origins)
        meta_of = self._meta
        recorded: list[RecordedEvent] = []
        for row, event in zip(rows, self._codec.decode_many(payloads, name), strict=True):
            lane, _, version, number, recorded_at, packed, _, digest = row
            stream = names[row[:2]]
            meta = NO_META if packed is None else meta_of(packed, stream, version)
            recorded.append(RecordedEvent(stream, version, Position(lane, number), recorded_at, event, meta, digest))
        return recorded

    def events(self, lots: Sequence[tuple[Sequence[Row], Origin]]) -> list[list[Event]]:
        """
        Return the events of several lots of rows; a lot is consecutive rows of one stream.

        Raises:
            DamagedError: an event was changed.
        """
        rows = [row for lot, _ in lots for row in lot]
        names: dict[tuple[int, ...], str] = {lot[0][:2]: origin.stream for lot, origin in lots if lot}
        name = _namer(rows, names)
        payloads = self._payloads(rows, name)
        bounds = list(pairwise(accumulate((len(lot) for lot, _ in lots), initial=0)))
        for (lot, origin), (start, end) in zip(lots, bounds, strict=True):
            self._check(lot, payloads[start:end], origin)
        events = self._codec.decode_many(payloads, name)
        return [events[start:end] for start, end in bounds]

    def check(self, rows: Sequence[Row], origins: Mapping[Place, Origin]) -> None:
        """
        Check rows as `recorded` does, without decoding their events.

        Raises:
            DamagedError: an event was changed.
        """
        payloads = self._payloads(rows, _namer(rows, {place: origin.stream for place, origin in origins.items()}))
        self._check_all(rows, payloads, origins)

    def _check_all(self, rows: Sequence[Row], payloads: Sequence[bytes], origins: Mapping[Place, Origin]) -> None:
        if len(origins) == 1:
            self._check(rows, payloads, *origins.values())
            return
        by_stream: dict[tuple[int, ...], list[int]] = {}
        for index, row in enumerate(rows):
            by_stream.setdefault(row[:2], []).append(index)
        for place, origin in origins.items():
            mine = by_stream[place]
            self._check([rows[index] for index in mine], [payloads[index] for index in mine], origin)

    def _check(self, rows: Sequence[Row], payloads: Sequence[bytes], origin: Origin) -> None:
        """Check consecutive rows of one stream, one run at a time."""
        start, before = 0, origin.before
        if self.evidence is not None and rows:
            self.evidence.require(rows[0][0], [row[3] for row in rows], [row[7] for row in rows])
        while start < len(rows):
            end = start + 1 + -rows[start][2] % RUN
            self._check_some(rows[start:end], payloads[start:end], origin._replace(before=before))
            before, start = rows[min(end, len(rows)) - 1][7], end

    def _check_some(self, rows: Sequence[Row], payloads: Sequence[bytes], origin: Origin) -> None:
        stream, before = origin
        # Only full runs without large texts are remembered: a large text is stored elsewhere and may change, and for a
        # few events a hash takes as long as the digests.
        is_kept = len(rows) == RUN and all(not row[6][0] & REFERENCES for row in rows)
        seen = _hash(rows, stream, before) if is_kept else b""
        if seen in self._known:
            return
        lanes, _, versions, numbers, times, packed, _, digests = zip(*rows, strict=True)
        metas = [
            NO_META if one is None else self._meta(one, stream, version)
            for one, version in zip(packed, versions, strict=True)
        ]
        columns = (repeat(stream), versions, (lanes, numbers), times, metas, payloads)
        computed = self._chain.digests((before, *digests), *columns)

        def is_left(place: int) -> bool:
            where = (stream, versions[place], Position(lanes[place], numbers[place]))
            ends = (before, *digests)[place], digests[place]
            return self._is_erased(
                stream, versions[place], seal_of(*ends, where, times[place], metas[place], payloads[place])
            )

        require_digests(computed, list(digests), lambda place: f"event {stream}@{versions[place]}", is_left)
        if is_kept:
            self._known.add(seen)

    def _payloads(self, rows: Sequence[Row], name: Callable[[int], str]) -> list[bytes]:
        payloads = self._compression.expand_many([row[6] for row in rows], name)
        referring = [index for index, row in enumerate(rows) if row[6][0] & REFERENCES]
        if referring:
            wanted = {(rows[index][0], key) for index in referring for key in references_in(payloads[index])}
            texts = self._fetch_texts(wanted)
            for index in referring:
                payloads[index] = resolve_references(payloads[index], texts.get(rows[index][0], {}).__getitem__)
        return payloads

    def _meta(self, packed: bytes, stream: str, version: int) -> Meta:
        meta = self._metas.get(packed)
        if meta is None:
            if len(self._metas) > METAS_MAX:
                self._metas.clear()
            meta = self._metas[packed] = decode_meta(packed, f"event {stream}@{version}")
        return meta


def _namer(rows: Sequence[Row], names: Mapping[tuple[int, ...], str]) -> Callable[[int], str]:
    """Return a function that names the event of the n-th row."""
    return lambda index: f"event {names[rows[index][:2]]}@{rows[index][2]}"


def _hash(rows: Sequence[Row], stream: str, before: bytes) -> bytes:
    """Return a hash of everything that the check of these rows depends on."""
    number, _, version, *_ = rows[0]
    parts = [f"{number}.{stream}@{version}\0".encode(), before]
    for _, _, _, position, recorded_at, meta, payload, digest in rows:
        packed = meta or b""
        size = -1 if meta is None else len(meta)
        parts += (_place_and_sizes(position, recorded_at, size, len(payload)), packed, payload, digest)
    return hashlib.sha256(b"".join(parts)).digest()
