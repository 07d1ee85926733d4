"""
Reading events back from PostgreSQL: which rows to fetch, and what else is needed to open them.

Fetching and opening are separate steps: a connection is in use only while rows are sent, not while they are expanded,
hashed and decoded.

The log as a whole is read page by page; `page.py` says which rows are in a page.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from operator import itemgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from ....domain.erasure.events import STREAM as ERASURES
from ....domain.erasure.events import Seals
from ....domain.errors import DamagedError
from ....domain.ids import VERSION_MAX
from ....domain.log.admission import NUMBER_MAX
from ....domain.log.envelope import NO_DIGEST, Chain, Event, RecordedEvent
from ....domain.log.ports import Page, Range, StreamEnd
from ....domain.positions import Moment
from ..codec import Codec
from ..compression import Compression
from ..evidence import Evidence
from ..large_texts import text_of
from ..records import Batch, batches
from ..row_faults import digest_of_row, opening
from .blocks import HEAD, PART_OF_VERSION, ROWS_OF_STREAM, STREAM_END, Blocks, digest_of
from .connection import PostgresDatabase
from .page import Pager
from .stored_events import PLACE, Opener, Origin, Place, Row
from .wire import Call, Rows, in_round_trips, int4, int8

T = TypeVar("T")
Given = ParamSpec("Given")
STREAMS_MAX = 100_000
# For each stream, the first and the last version of its fetched rows.
Spans = Mapping[Place, tuple[int, int]]
# Returns the error for a stream whose known end is missing.
WentBack = Callable[[str, StreamEnd], Exception]


# Positions and times rise with the versions of a stream, so the last version of a moment is found by binary search. A
# scan from the end would take time for all events since then. In a part of a block only the first event is compared: if
# the result is the last version of a part, the third column has its first one, and the search must go on there.
HALVING = f"""
    WITH RECURSIVE halves (low, high) AS (
        SELECT 0, {HEAD}
        UNION ALL
        SELECT CASE WHEN one.is_in THEN one.last ELSE low END, CASE WHEN one.is_in THEN high ELSE one.first - 1 END
        FROM halves CROSS JOIN LATERAL (
            SELECT version AS first, version AS last, {{column}} <= $3 AS is_in FROM event
            WHERE slice = $1 AND stream_key = $2 AND version = (low + high + 1) / 2
            UNION ALL
            SELECT p.first_version, p.last_version, p.{{column}} <= $3 FROM part AS p
            WHERE p.slice = $1 AND {PART_OF_VERSION.format(stream="$2", version="((low + high + 1) / 2)")}
        ) AS one
        WHERE low < high
    )
    SELECT low, high, (SELECT p.first_version FROM part AS p WHERE p.slice = $1 AND p.stream = $2 AND
        p.last_version = low)
    FROM halves ORDER BY high - low LIMIT 1
"""


def _read_again(read: Callable[Concatenate[Reader, Given], T]) -> Callable[Concatenate[Reader, Given], T]:
    """
    Wrap a method of a reader: if something is missing or was changed, it reads once more.

    Each of its statements sees the log as it is at that moment. An older copy may have been put in place between two of
    them, and there the remembered keys may belong to other streams.
    """

    @wraps(read)
    def read_again(reader: Reader, /, *args: Given.args, **kwargs: Given.kwargs) -> T:
        try:
            return read(reader, *args, **kwargs)
        except DamagedError:
            reader.forget_places()
            return read(reader, *args, **kwargs)

    return read_again


NAME = "SELECT id FROM stream WHERE slice = $1 AND key = $2"
VERSION = f"SELECT {HEAD}"
END = f"SELECT {STREAM_END.format(streams='(SELECT $1::int AS slice, $2::int AS key)')}"
AT_TIME = HALVING.replace("{column}", "recorded_at")
AT_POSITION = HALVING.replace("{column}", "position")
UNDER = "SELECT first_version, last_version FROM idempotency WHERE slice = $1 AND stream = $2 AND key = $3"
DIGEST = f"SELECT {digest_of('$2', '$3')}"
TEXT = "SELECT hash, data FROM blob WHERE slice = $1 AND key = $2"


class Reader:
    """Reads and opens the events of one log; may be used by any number of threads."""

    def __init__(
        self,
        database: PostgresDatabase,
        codec: Codec,
        compression: Compression,
        went_back: WentBack,
        chain: Chain,
    ) -> None:
        self._database = database
        self._compression = compression
        self._seals = Seals()
        self._opener = Opener(codec, compression, self._texts, self._is_erased, chain)
        self._marking_opener = Opener(codec.marking(), compression, self._texts, self._is_erased, chain)
        self._blocks = Blocks(compression)
        self._went_back = went_back
        self._evidence: Evidence | None = None
        self._places: dict[str, Place] = {}
        self._names: dict[Place, str] = {}

    def use_evidence(self, evidence: Evidence) -> None:
        """Compare with this evidence what is read from now on."""
        self._evidence = self._opener.evidence = self._marking_opener.evidence = evidence

    def known_version(self, stream: str) -> int:
        """Return the last version that is known of a stream from outside of the database."""
        if self._evidence is None:
            return 0
        place = self._places_of([stream]).get(stream)
        return self._evidence.last_version(stream, None if place is None else place.slice)

    def _places_of(self, streams: Iterable[str]) -> dict[str, Place]:
        """Return the places of those streams that exist."""
        places = {stream: self._places.get(stream) for stream in streams}
        unknown = [stream for stream, place in places.items() if place is None]
        answers = self._ask([Call(PLACE, (stream.encode(),)) for stream in unknown])
        for stream, rows in zip(unknown, answers, strict=True):
            for row in rows:
                places[stream] = place = Place(*row)
                self._remember(place, stream)
        return {stream: place for stream, place in places.items() if place is not None}

    def last_version(self, stream: str, moment: Moment | int | None = None) -> int:
        """
        Return the last version of a stream: at a moment of the log, at a time in microseconds, or now.

        Raises:
            DamagedError: a version that the search needed is missing.
        """
        with opening(f"stream {stream}"):
            place = self._places_of([stream]).get(stream)
            return 0 if place is None else self._last_version(stream, place, moment)

    def _last_version(self, stream: str, place: Place, moment: Moment | int | None) -> int:
        where = (int4(place.slice), int4(place.key))
        if moment is None:
            return int(self._ask([Call(VERSION, where)])[0][0][0] or 0)
        if isinstance(moment, int):
            call = Call(AT_TIME, (*where, int8(min(max(moment, 0), NUMBER_MAX))))
        else:
            call = Call(AT_POSITION, (*where, int8(min(moment.head(place.slice), NUMBER_MAX))))
        low, high, first = self._ask([call])[0][0]
        if low < high:
            raise DamagedError(f"event {stream}@{(low + high + 1) // 2}", "it is missing")
        if first is None:
            return int(low)
        rows = self._rows([(place, first, low)])[0]
        bound = int.from_bytes(call.values[2] or b"", "big")
        return int(first) - 1 + bisect.bisect_right(rows, bound, key=itemgetter(4 if call.sql == AT_TIME else 3))

    def end(self, stream: str) -> StreamEnd:
        """Return the last version of a stream and its digest; the place of the stream is read again."""
        # Since a restore, the remembered place may belong to another stream, and contexts are opened here.
        self._places.pop(stream, None)
        with opening(f"stream {stream}"):
            place = self._places_of([stream]).get(stream)
            rows = self._ask([Call(END, (int4(place.slice), int4(place.key)))])[0] if place else []
        if not rows or rows[0][0] is None:
            return StreamEnd(0)
        version, digest = rows[0]
        return StreamEnd(version, digest_of_row(f"event {stream}@{version}", digest))

    def heads(self, streams: Sequence[str]) -> list[int]:
        return [end or 0 for end in self._of_places([(one, ()) for one in streams], VERSION)]

    def digests(self, wanted: Sequence[tuple[str, int]]) -> list[bytes | None]:
        return self._of_places([(stream, (int4(version),)) for stream, version in wanted], DIGEST)

    @opening("a row of the log")
    def _of_places(self, wanted: Sequence[tuple[str, tuple[bytes, ...]]], statement: str) -> list[Any]:
        """
        Return the result of a statement for each stream, with further values; the places of streams are read again.
        """
        self.forget_places()
        places = self._places_of({stream for stream, _ in wanted})
        there = [(places[stream], values) for stream, values in wanted if stream in places]
        calls = [Call(statement, (int4(place.slice), int4(place.key), *values)) for place, values in there]
        answers = iter(self._ask(calls))
        found = [next(answers) if stream in places else [] for stream, _ in wanted]
        return [rows[0][0] if rows else None for rows in found]

    def forget_places(self) -> None:
        """
        Look up streams again: in a database that was replaced by an older copy, other streams may have their keys.
        """
        self._places.clear()
        self._names.clear()

    @_read_again
    def read_stream(self, wanted: Range, known: StreamEnd | None = None) -> list[RecordedEvent]:
        """
        Return the events of a range, as far as they exist, in order.

        Raises:
            DamagedError: an event is missing, or was changed.
            LogWentBackError: the `known` end of the stream is missing.
        """
        with opening(f"stream {wanted.stream}"):
            ((rows, origin),) = self._fetch([Batch([wanted])])
            self._require(known, wanted, rows, origin)
            return self._opener.recorded(rows, {Place(*rows[0][:2]): origin}) if rows else []

    @_read_again
    def read_events(self, wanted: Range, known: StreamEnd | None = None) -> list[Event]:
        with opening(f"stream {wanted.stream}"):
            ((rows, origin),) = self._fetch([Batch([wanted])])
            self._require(known, wanted, rows, origin)
            return self._opener.events([(rows, origin)])[0]

    def _require(self, known: StreamEnd | None, wanted: Range, rows: Sequence[Row], origin: Origin) -> None:
        if known is None or known.version < 1:
            return
        digest: bytes | None
        if wanted.after == known.version < wanted.until:
            digest = origin.before if origin.before != NO_DIGEST else None
        elif rows and rows[-1][2] == known.version:
            digest = rows[-1][7]
        else:
            (digest,) = self.digests([(wanted.stream, known.version)])
        if digest is None or known.digest not in (b"", digest):
            raise self._went_back(wanted.stream, known)

    @_read_again
    def read_under(self, stream: str, key: str) -> list[RecordedEvent]:
        """Return the events of a stream that were appended under an idempotency key."""
        with opening(f"stream {stream}"):
            place = self._places_of([stream]).get(stream)
            if place is None:
                return []
            spans = self._ask([Call(UNDER, (int4(place.slice), int4(place.key), key.encode()))])[0]
            return self.read_stream(Range(stream, spans[0][0] - 1, spans[0][1])) if spans else []

    @_read_again
    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        """
        Return the events of each range as `read_stream` does, without envelopes, in one round trip once the places of
        the streams are known.
        """
        asked = batches(ranges)
        lots: list[tuple[Sequence[Row], Origin]] = []
        with opening(f"stream {' or '.join({one.stream for one in asked})}"):
            for batch, (rows, origin) in zip(asked, self._fetch(asked), strict=True):
                for start, end in batch.places(len(rows)):
                    # The events between the ranges were fetched, too, and are not opened.
                    before = rows[start - 1][7] if 0 < start < end else origin.before
                    lots.append((rows[start:end], origin._replace(before=before)))
            return self._opener.events(lots)

    def _fetch(self, asked: Sequence[Batch]) -> list[tuple[list[Row], Origin]]:
        """Return the rows of each batch, and what is needed to open them."""
        places = self._places_of({batch.stream for batch in asked})
        there = [one for one in asked if one.stream in places and not one.is_empty and one.after < VERSION_MAX]
        # One event more than asked for: the first one's digest needs the digest before it.
        spans = [(places[one.stream], max(1, one.after), one.until) for one in there]
        fetched = dict(zip(there, self._rows(spans), strict=True))
        found: list[tuple[list[Row], Origin]] = []
        for one in asked:
            lot: list[Row] = fetched.get(one, [])
            found.append((lot, Origin(one.stream, _taken_off(lot, one.stream, one.after))))
        return found

    def _rows(self, spans: Sequence[tuple[Place, int, int]]) -> list[list[Row]]:
        """Return the rows of streams from a version to another, also of those events that are in blocks."""
        found = self._ask([_between(ROWS_OF_STREAM, *span) for span in spans])
        return [
            self._blocks.rows_of_stream(rows, place.key, first, last)
            for rows, (place, first, last) in zip(found, spans, strict=True)
        ]

    def _is_erased(self, stream: str, version: int, seal: bytes) -> bool:
        """Return whether an erasure of the log says that this is left of an event."""
        return self._seals.has_after_reading(
            stream, version, seal, lambda: self.read_events(Range(ERASURES, 0, VERSION_MAX))
        )

    def check_rows(self, rows: Sequence[Row]) -> None:
        """
        Check rows; those of one stream are consecutive versions.

        Raises:
            DamagedError: an event was changed, or the one before is missing.
        """
        self._opener.check(rows, self._origins(rows))

    @_read_again
    def read_page(self, pager: Pager, after: Moment, limit: int, *, until: Moment | None, undecodable: bool) -> Page:
        """
        Return the page after `after`. With `undecodable` an event that cannot be decoded is an `Undecodable`.

        Raises:
            DamagedError: an event was changed, or the one before it is missing.
        """
        rows, moment = pager.page(after, limit) if until is None else pager.page_until(until, after, limit)
        with opening("a row of the log"):
            opener = self._marking_opener if undecodable else self._opener
            events = opener.recorded(rows, self._origins(rows))
        return Page(events, moment)

    def _origins(self, rows: Sequence[Row]) -> dict[Place, Origin]:
        """Return the origin of each stream that rows belong to; those of one stream must be consecutive versions."""
        ends: dict[tuple[int, int], list[int]] = {}
        for row in rows:
            end = ends.get(row[:2])
            if end is None:
                ends[row[:2]] = [row[2], row[2]]
            elif row[2] != end[1] + 1:
                place = Place(*row[:2])
                raise DamagedError(f"event {self._names_of([place])[place]}@{end[1] + 1}", "it is missing")
            else:
                end[1] = row[2]
        spans = {Place(*key): (first, last) for key, (first, last) in ends.items()}
        names = self._names_of(spans)
        befores = self._digests_before(spans, names)
        return {place: Origin(names[place], befores[place]) for place in spans}

    def _digests_before(self, spans: Spans, names: Mapping[Place, str]) -> dict[Place, bytes]:
        digests = {place: NO_DIGEST for place, (first, _) in spans.items() if first <= 1}
        asked = [(place, first - 1) for place, (first, _) in spans.items() if first > 1]
        calls = [Call(DIGEST, (int4(place.slice), int4(place.key), int4(last))) for place, last in asked]
        for (place, version), found in zip(asked, self._ask(calls), strict=True):
            if found[0][0] is None:
                raise DamagedError(f"event {names[place]}@{version}", "it is missing")
            digests[place] = found[0][0]
        return digests

    def _names_of(self, places: Iterable[Place]) -> dict[Place, str]:
        known = {place: self._names.get(place, "") for place in places}
        unknown = [place for place, name in known.items() if not name]
        answers = self._ask([Call(NAME, (int4(place.slice), int4(place.key))) for place in unknown])
        for place, found in zip(unknown, answers, strict=True):
            if not found:
                raise DamagedError(f"stream {place.slice}.{place.key}", "its row is missing, and events belong to it")
            known[place] = found[0][0]
            self._remember(place, found[0][0])
        return known

    def _texts(self, wanted: set[tuple[int, int]]) -> Mapping[int, Mapping[int, str]]:
        asked = sorted(wanted)
        answers = self._ask([Call(TEXT, (int4(number), int8(key))) for number, key in asked])
        texts: dict[int, dict[int, str]] = {number: {} for number, _ in asked}
        for (number, key), found in zip(asked, answers, strict=True):
            what = f"blob {number}.{key}"
            if not found:
                raise DamagedError(what, "it is missing, and events refer to it")
            with opening(what):
                digest, data = found[0]
                texts[number][key] = text_of(self._compression.expand(data, what), digest, what)
        return texts

    def _remember(self, place: Place, stream: str) -> None:
        if len(self._places) > STREAMS_MAX:
            self._places.clear()
            self._names.clear()
        self._places[stream] = place
        self._names[place] = stream

    def _ask(self, calls: Sequence[Call]) -> list[Rows]:
        return in_round_trips(self._database.ask, calls)


def _between(statement: str, place: Place, first: int, last: int) -> Call:
    span = (int4(min(first, VERSION_MAX)), int4(min(last, VERSION_MAX)))
    return Call(statement, (int4(place.slice), int4(place.key), *span))


def _taken_off(rows: list[Row], stream: str, after: int) -> bytes:
    """
    Remove the event before those that were asked for, and return its digest, which the first of them needs.

    Raises:
        DamagedError: a version is missing.
    """
    first = max(1, after)
    # Versions ascend, so none is missing if the count is right.
    if rows and rows[-1][2] - first + 1 != len(rows):
        missing = next(version for version, row in enumerate(rows, first) if row[2] != version)
        raise DamagedError(f"event {stream}@{missing}", "it is missing")
    return rows.pop(0)[7] if after and rows else NO_DIGEST


class PostgresPartition:
    """A partition of a log: the events that its pager finds."""

    def __init__(self, pager: Pager, reader: Reader) -> None:
        self._pager, self._reader = pager, reader

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = True) -> Page:
        return self._reader.read_page(self._pager, after, limit, until=until, undecodable=undecodable)

    def now(self) -> Moment:
        return Moment.of(dict(self._pager.ends()))
