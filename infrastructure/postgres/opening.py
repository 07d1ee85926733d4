"""
Opening rows: expanding, checking, decoding.

Nothing leaves here unchecked. Who wants events with their envelopes has each compared with its digest; who wants
the events alone has runs of 64 compared with their checksums, and the rest with their digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...domain.envelope import NO_META, Event, Meta, RecordedEvent, chain_digest
from ...domain.errors import DamagedError
from ...domain.positions import Position
from ..codec import Codec, decode_meta
from ..compression import Compression, has_references
from ..texts import resolve_references
from .runs import RUN, run_checksum

__all__ = ["COLUMNS", "FetchTexts", "Opener", "Place", "Row"]

COLUMNS = "slice, stream, version, position, recorded_at, meta, payload, digest"
METAS_MAX = 10_000


class Place(NamedTuple):
    """Where a stream lies: its slice, and its integer key there."""

    slice: int
    key: int


# Slice, stream, version, position, time, meta, payload as stored, digest.
Row = tuple[int, int, int, int, int, bytes | None, bytes, bytes]
# From the slices and keys of large texts to the texts, by slice and key.
FetchTexts = Callable[[set[tuple[int, int]]], Mapping[int, Mapping[int, str]]]


class Opener:
    """Makes events of rows; `fetch_texts` gets the large texts that they refer to."""

    def __init__(self, codec: Codec, compression: Compression, fetch_texts: FetchTexts) -> None:
        self._codec = codec
        self._compression = compression
        self._fetch_texts = fetch_texts
        self._metas: dict[bytes, Meta] = {}

    def recorded(
        self, rows: Sequence[Row], names: Mapping[Place, str], digests: dict[Place, bytes]
    ) -> list[RecordedEvent]:
        """
        Return rows as recorded events, given the names of their streams and the digest before each one's first.

        Raises:
            DamagedError: an event does not match its digest.
        """
        events: list[RecordedEvent] = []
        payloads = self._payloads(rows, lambda row: f"event {names[Place(row[0], row[1])]}@{row[2]}")
        for row, payload in zip(rows, payloads, strict=True):
            place, version = Place(row[0], row[1]), row[2]
            stream, digest = names[place], row[7]
            meta = self._checked(row, stream, digests[place], payload)
            event = self._decoded(payload, stream, version)
            events.append(RecordedEvent(stream, version, Position(row[0], row[3]), row[4], event, meta, digest))
            digests[place] = digest
        return events

    def events(self, rows: Sequence[Row], stream: str, before: bytes, checksums: Mapping[int, bytes]) -> list[Event]:
        """
        Return consecutive rows of one stream as events, given the digest before the first, and checksums of runs
        by their last versions.

        Raises:
            DamagedError: a run does not match its checksum, or an event outside of them its digest.
        """
        payloads = self._payloads(rows, lambda row: f"event {stream}@{row[2]}")
        for start, end, is_covered in _stretches(rows, stream, checksums):
            for index in () if is_covered else range(start, end):
                self._checked(rows[index], stream, rows[index - 1][7] if index else before, payloads[index])
        decoded = self._decoded
        return [decoded(payload, stream, row[2]) for row, payload in zip(rows, payloads, strict=True)]

    def _decoded(self, payload: bytes, stream: str, version: int) -> Event:
        try:
            return self._codec.decode(payload, stream)
        except DamagedError as error:
            raise DamagedError(f"event {stream}@{version}", error.reason) from error

    def _checked(self, row: Row, stream: str, previous: bytes, payload: bytes) -> Meta:
        """Check an event's digest, and return its meta."""
        lane, _, version, number, recorded_at, packed, _, digest = row
        meta = NO_META if packed is None else self._metas.get(packed) or self._meta(packed, f"event {stream}@{version}")
        if chain_digest(previous, stream, version, Position(lane, number), recorded_at, meta, payload) != digest:
            raise DamagedError(f"event {stream}@{version}", "it does not match its digest")
        return meta

    def _payloads(self, rows: Sequence[Row], name: Callable[[Row], str]) -> list[bytes]:
        payloads = self._compression.expand_many([row[6] for row in rows], lambda index: name(rows[index]))
        referring = [index for index, row in enumerate(rows) if has_references(row[6])]
        if referring:
            wanted = {(rows[index][0], key) for index in referring for key in _keys_in(payloads[index])}
            texts = self._fetch_texts(wanted)
            for index in referring:
                payloads[index] = resolve_references(payloads[index], texts[rows[index][0]].__getitem__)
        return payloads

    def _meta(self, packed: bytes, what: str) -> Meta:
        if len(self._metas) > METAS_MAX:
            self._metas.clear()
        meta = self._metas[packed] = decode_meta(packed, what)
        return meta


def _stretches(rows: Sequence[Row], stream: str, checksums: Mapping[int, bytes]) -> Iterable[tuple[int, int, bool]]:
    """
    Cut rows where runs begin and end; say of each piece whether its checksum stands for it.

    Raises:
        DamagedError: a checksum does not match.
    """
    start = 0
    while start < len(rows):
        version = rows[start][2]
        last = version + -version % RUN
        end = min(len(rows), start + last - version + 1)
        checksum = checksums.get(last) if end - start == RUN else None
        stored = [row[6] for row in rows[start:end]] if checksum else []
        yield start, end, bool(checksum) and run_checksum(stream, version, stored) == checksum
        start = end


def _keys_in(payload: bytes) -> list[int]:
    """
    Return the keys of the texts that a stored payload refers to.
    """
    keys: list[int] = []

    def collect(key: int) -> str:
        keys.append(key)
        return ""

    resolve_references(payload, collect)
    return keys
