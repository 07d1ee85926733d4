"""
The check of a log's events: versions and positions without holes, matching digests, references to existing events.

The log is read once, in its own order. Rows that only a reading stream by stream needs are compared with what is in the
log without opening the events. Streams with a wrong row, or all streams if a damaged event stops the reading, are then
read one by one: this names every problem.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from ...domain.errors import DamagedError, StorageError, reason_of
from ...domain.log.envelope import RecordedEvent, Undecodable
from ...domain.log.ports import LiveLog
from ...domain.positions import Moment, Position
from ..context_streams import named_versions

T = TypeVar("T")
HOLES_MAX = 100
PAGE_EVENTS = 2_048
EMPTY_PAGES_MAX = 100
KEYS_REPORTED = 100
UNLIKE_BLOCK = "its rows of parts are unlike its blocks: as of a time or a position, another version may be shown"


class Problem(msgspec.Struct, frozen=True):
    """
    Something wrong in a store: its kind, the place, and the reason.

    `kind` is `file`, `event`, `version`, `position`, `reference`, `text`, `row`, `projection`, `snapshot` or `witness`.
    `where` is an event as `stream@version`, several as `stream@first..last`, a position, a stored text, a stream, or
    the name of a projection.
    Data that a rebuild can make again from the events, such as projections, is `repairable`.
    """

    kind: str
    where: str
    reason: str
    repairable: bool = False
    is_repaired: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """
    The number of streams, events and projections that were checked, and the problems; a sound store has none.

    `left_out` are projections that were not compared: that needs a table in a database that cannot be written.
    `is_done` is False if the check was stopped; the report has what was found by then.
    """

    streams: int
    events: int
    projections: int
    problems: tuple[Problem, ...]
    left_out: tuple[str, ...] = ()
    is_done: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether everything was checked, and there is no problem, or all problems are repaired."""
        return self.is_done and all(problem.is_repaired for problem in self.problems)


def damage_of(error: Exception, what: str) -> DamagedError:
    """
    Return the damage that an error in reading means; `what` names the bytes if the error does not.

    A value of another type, or a torn page, may raise anything, and that must not end the check.

    Raises:
        StorageError: the database is busy, closed or unreachable, which says nothing about the stored bytes.
    """
    if isinstance(error, DamagedError):
        return error
    if isinstance(error, StorageError) and type(error) is not StorageError:
        raise error
    return DamagedError(what, f"it cannot be read ({reason_of(error)})")


def asked(problems: list[Problem], what: str, ask: Callable[[], T]) -> T | None:
    """Return the answer to a query of the log; if it fails, add a problem and return None."""
    try:
        return ask()
    except Exception as error:
        damage = damage_of(error, what)
        problems.append(Problem("event", damage.what, damage.reason))
        return None


class Unreadable:
    """Versions that cannot be read; consecutive ones with the same reason are reported together."""

    def __init__(self) -> None:
        self.count = 0
        # Stream, reason, first and last version.
        self._runs: list[tuple[str, str, int, int]] = []
        # The run of each stream that may go on.
        self._last: dict[str, int] = {}

    def add(self, stream: str, version: int, error: DamagedError) -> None:
        """Note that a version cannot be read."""
        self.count += 1
        is_its_own = error.what == f"event {stream}@{version}"
        reason = error.reason if is_its_own else f"{error.what}: {error.reason}"
        number = self._last.get(stream)
        if number is not None and (last := self._runs[number])[1] == reason and last[3] == version - 1:
            self._runs[number] = (stream, reason, last[2], version)
        else:
            self._last[stream] = len(self._runs)
            self._runs.append((stream, reason, version, version))

    def problems(self) -> list[Problem]:
        """Return a problem for each run of versions."""
        return [
            Problem("event", f"{stream}@{first}" if first == last else f"{stream}@{first}..{last}", reason)
            for stream, reason, first, last in sorted(set(self._runs), key=lambda run: (run[0], run[2]))
        ]


class _Hole(NamedTuple):
    """Positions of a slice at which no event was found."""

    slice: int
    first: int
    last: int


class Places:
    """Positions and times of events, checked in the order of the log or collected stream by stream."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._found: dict[int, list[tuple[int, int]]] = {}

    def fault_of_next(self, recorded: RecordedEvent) -> str | None:
        """Return what is wrong with the place of the next event in the order of the log, None if nothing is."""
        position = recorded.position
        number, recorded_at = self._last.get(position.slice, (0, 0))
        self._last[position.slice] = (position.number, recorded.recorded_at)
        if position.number != number + 1:
            return f"it is at position {position}, right behind {Position(position.slice, number)}"
        return "it was recorded before the event in front of it" if recorded.recorded_at < recorded_at else None

    def add(self, recorded: RecordedEvent) -> None:
        """Note the place of an event that was found in its stream."""
        self._found.setdefault(recorded.position.slice, []).append((recorded.position.number, recorded.recorded_at))

    def problems(self, log: LiveLog, unreadable: int) -> list[Problem]:
        """
        Return what is wrong with the places of the added events; `unreadable` is the number of events known to be
        unreadable.
        """
        problems: list[Problem] = []
        holes: list[_Hole] = []
        heads = dict(log.now().heads)
        for number in sorted({*heads, *self._found}):
            places = sorted(self._found.get(number, ()))
            problems += _going_back(number, places)
            holes += _holes(number, [place for place, _ in places], heads.get(number, 0))
        # The missing positions may belong to events that were already reported as unreadable.
        if sum(hole.last - hole.first + 1 for hole in holes) <= unreadable:
            return problems
        problems += [_problem_of(log, hole, heads) for hole in holes[:HOLES_MAX]]
        if len(holes) > HOLES_MAX:
            problems.append(
                Problem("position", "the log", f"there are {len(holes) - HOLES_MAX:,} holes more like these")
            )
        return problems


def _going_back(number: int, places: list[tuple[int, int]]) -> Iterator[Problem]:
    recorded_at = 0
    for place, time in places:
        if time < recorded_at:
            yield Problem("position", str(Position(number, place)), "it was recorded before the event in front of it")
        recorded_at = time


def _holes(number: int, places: list[int], end: int) -> Iterator[_Hole]:
    before = 0
    for place in (*places, max(end, *places[-1:], 0) + 1):
        if place > before + 1:
            yield _Hole(number, before + 1, place - 1)
        before = place


def _problem_of(log: LiveLog, hole: _Hole, heads: dict[int, int]) -> Problem:
    first, last = Position(hole.slice, hole.first), Position(hole.slice, hole.last)
    where = str(first) if first == last else f"{first} to {last}"
    before = Moment.of({**heads, hole.slice: hole.first - 1})
    try:
        # If there is a row, reading it in the order of the log gives the reason why there is no event.
        log.read_all(after=before, limit=1)
    except Exception as error:
        damage = damage_of(error, "it")
        return Problem("position", where, f"no event can be read there: {damage.what}: {damage.reason}")
    return Problem("position", where, "there is no event at it")


class EventCheck:
    """Checks all events of a log."""

    def __init__(self, log: LiveLog) -> None:
        self._log = log
        # The last version of each stream, including versions that cannot be read.
        self._ends: dict[str, int] = {}
        self._places = Places()
        # The highest version of another stream that any event names, and that event.
        self._named: dict[str, tuple[int, str]] = {}
        # The first and last version under each idempotency key, and whether a row is known to belong to it.
        self._keys: dict[tuple[str, str], tuple[int, int, bool]] = {}
        self._unreadable = Unreadable()
        self.events = 0
        self.problems: list[Problem] = []
        # Streams that exist and have no events.
        self.empty: list[str] = []
        # The damage that prevents reading the log as a whole.
        self.damage: DamagedError | None = None

    def run(self, read: Callable[[Callable[[Sequence[RecordedEvent]], None]], bool]) -> bool:
        """
        Check everything and put what is wrong into `problems`; return False if the reading was stopped.

        `read` reads the log in its order, calls the function that it gets with the events of each page, and returns
        whether it read all.
        """
        places = Places()
        try:
            if not read(lambda events: self._look(events, places)):
                self.problems += self._unreadable.problems()
                return False
        except Exception as error:
            self.damage = damage_of(error, "the log")
            self._ends.clear()
            self._named.clear()
            self._keys.clear()
            self._unreadable = Unreadable()
            self.events, self.problems = 0, []
        self._read_streams()
        self.problems += self._unreadable.problems()
        if self.damage is not None:
            places, count = self._places, self._unreadable.count
            self.problems += asked(self.problems, "the log", lambda: places.problems(self._log, count)) or []
        self._check_references()
        texts = asked(self.problems, "the large texts", lambda: list(self._log.damaged_texts()))
        self.problems += [Problem("file", error.what, error.reason) for error in self._log.damaged_files()]
        self.problems += [Problem("text", error.what, error.reason) for error in texts or ()]
        rows = asked(self.problems, "the rows beside the events", lambda: list(self._log.damaged_rows()))
        self.problems += [Problem("row", error.what, error.reason) for error in rows or ()]
        # An event that cannot be read may have been recorded under a key.
        if self.damage is None and not self._unreadable.count:
            keys = asked(self.problems, "the idempotency keys", lambda: list(islice(self._wrong_keys(), KEYS_REPORTED)))
            self.problems += [Problem("row", stream, reason) for stream, reason in keys or ()]
        return True

    def _look(self, events: Sequence[RecordedEvent], places: Places) -> None:
        for recorded in events:
            fault = places.fault_of_next(recorded)
            if fault:
                self._report("position", recorded, fault)
            if type(recorded.event) is Undecodable:
                damage = DamagedError(f"event {recorded.reference}", recorded.event.reason)
                self._unreadable.add(recorded.stream, recorded.version, damage)
            self._check(recorded)

    def _read_streams(self) -> None:
        doubtful = None if self.damage else asked(self.problems, "the streams", lambda: {*self._log.doubtful_streams()})
        for stream in asked(self.problems, "the streams", self._log.streams) or ():
            if doubtful is not None and stream in self._ends and stream not in doubtful:
                continue
            known = len(self.problems), self._unreadable.count
            head = asked(self.problems, stream, functools.partial(self._log.head, stream)) or 0
            end = max(head, self._ends.get(stream, 0))
            if not end:
                self.empty.append(stream)
            empty = 0
            for after in range(0, end, PAGE_EVENTS):
                before = self._unreadable.count
                self._read_some(stream, after, min(end, after + PAGE_EVENTS))
                empty = empty + 1 if self._unreadable.count - before == PAGE_EVENTS else 0
                if empty == EMPTY_PAGES_MAX:
                    reason = f"its last version is {end}, and there is none for long: what follows was not looked at"
                    self.problems.append(Problem("version", f"{stream}@{after + PAGE_EVENTS}", reason))
                    break
            if doubtful is not None and stream in doubtful and known == (len(self.problems), self._unreadable.count):
                self.problems.append(Problem("row", stream, UNLIKE_BLOCK))

    def _read_some(self, stream: str, after: int, until: int) -> None:
        """Check some versions of a stream; if they cannot be read together, check each half of them."""
        try:
            found = self._read(stream, after, until)
        except Exception as error:
            damage = damage_of(error, f"event {stream}@{until}")
            if until - after == 1:
                self._unreadable.add(stream, until, damage)
                self._ends[stream] = until
                return
            middle = (after + until) // 2
            self._read_some(stream, after, middle)
            self._read_some(stream, middle, until)
            return
        for version in range(after + found + 1, until + 1):
            self._unreadable.add(stream, version, DamagedError(f"event {stream}@{version}", "it is missing"))
            self._ends[stream] = version

    def _read(self, stream: str, after: int, until: int) -> int:
        """Read some versions and return how many exist; check them, unless the reading in the log's order did that."""
        if self.damage is None:
            return len(self._log.read_events(stream, after=after, until=until))
        page = self._log.read(stream, after=after, until=until)
        for recorded in page:
            self._places.add(recorded)
            self._check(recorded)
        return len(page)

    def _check(self, recorded: RecordedEvent) -> None:
        self.events += 1
        before = self._ends.get(recorded.stream, 0)
        if recorded.version != before + 1:
            self._report("version", recorded, f"it is right behind version {before} of its stream")
        self._ends[recorded.stream] = recorded.version
        self._note_names(recorded)
        self._note_key(recorded)

    def _note_key(self, recorded: RecordedEvent) -> None:
        key, version = recorded.meta.idempotency_key, recorded.version
        if key is not None:
            # Adopted events keep their key but have no row for it; they have no fingerprint either.
            name, has_row = (recorded.stream, key), recorded.meta.fingerprint is not None
            first, last, _ = self._keys.get(name, (version, version - 1, has_row))
            self._keys[name] = (first, version if last == version - 1 else last, has_row)

    def _wrong_keys(self) -> Iterator[tuple[str, str]]:
        """Yield each stream with an idempotency key whose row differs from its events, and the difference."""
        left = dict(self._keys)
        for stream, key, first, last in self._log.idempotency_keys():
            found = left.pop((stream, key), None)
            # A row that names missing versions was already reported.
            if 1 <= first <= last <= self._ends.get(stream, 0) and (found is None or found[:2] != (first, last)):
                were = "none were" if found is None else f"{found[0]} to {found[1]} were"
                yield stream, f"its key {key!r} names versions {first} to {last}, and {were} recorded under it"
        for (stream, key), (first, last, has_row) in left.items():
            if has_row:
                yield stream, f"its key {key!r} has no row, and versions {first} to {last} were recorded under it"

    def _note_names(self, recorded: RecordedEvent) -> None:
        for stream, version in named_versions(recorded.event, recorded.stream):
            if version > self._named.get(stream, (0, ""))[0]:
                self._named[stream] = (version, recorded.reference)

    def _check_references(self) -> None:
        for stream, (version, reference) in sorted(self._named.items()):
            end = self._ends.get(stream)
            if end is None or end < version:
                has = "there is no such stream" if end is None else f"it ends at version {end}"
                self.problems.append(Problem("reference", reference, f"it names {stream}@{version}, and {has}"))

    def _report(self, kind: str, recorded: RecordedEvent, reason: str) -> None:
        self.problems.append(Problem(kind, recorded.reference, reason))

    def end_of(self, stream: str) -> int:
        """Return the last version of a stream that was found; 0 if there is none."""
        return self._ends.get(stream, 0)

    @property
    def streams(self) -> int:
        """How many streams have events."""
        return len(self._ends)
