"""
The end of the log: the last position of every slice, read as of one moment.

A writer locks the row of its slice FOR UPDATE, and the server keeps the id of the last transaction that locked a row in
the row's system column `xmax`. So a slice need be asked for its end only if its `xmax` is not the one that it had when
its end was last known. This id is called a mark here.

A mark is trusted if its transaction was over before the end was read, because then no event of it can appear later.
That is certain if the transaction wrote the last event, which is visible, or inserted the row of the slice (`xmin`
names it), or if it is older than all that were running when the statement began. The last is not asked of an id that
may be that of a group of transactions (a MultiXact): other programs may lock the row FOR SHARE, and ids of groups are
counted apart.

VACUUM may set an old `xmax` to 0: such slices are asked each time, until somebody who may write has marked them again.
Each server has its own ids of transactions: after it has restarted, or on another server, no mark is trusted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from ....domain.concurrency.locks import News, fork_safe_lock, synchronized
from ....domain.errors import DamagedError, StorageError
from ....domain.ids import SLICES
from ....domain.positions import Moment
from .connection import PostgresDatabase
from .wire import Call, Rows, int8

# A change that no rule above foresees, such as a row deleted by hand, stays unseen for at most this long.
FULL_LOOK_SECONDS = 60.0
# All callers of a process that wait for news look together: at most this often, and less often while nothing comes.
POLL_SECONDS = 0.02
POLL_SECONDS_MAX = 0.25
# The part of the time without news that passes until the next look.
PATIENCE = 0.25
# A full look takes the server some milliseconds, so it must rest most of the time.
REST_FACTOR = 4
UNKNOWN = bytes(4)
CHANGED = """
    WITH server AS MATERIALIZED (
        SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS started,
            pg_snapshot_xmin(pg_current_snapshot())::xid AS oldest
    )
    SELECT l.slice, e.position, l.xmax, l.xmax = e.xmin OR l.xmax = l.xmin
            OR (mxid_age(l.xmax) <= 0 AND age(l.xmax) > age((SELECT oldest FROM server))) IS TRUE,
        (SELECT started FROM server)
    FROM slice_lock AS l LEFT JOIN LATERAL
        (SELECT position, xmin FROM event WHERE slice = l.slice ORDER BY position DESC LIMIT 1) AS e ON true
    WHERE l.xmax IS DISTINCT FROM ($1::xid[])[l.slice + 1] OR l.xmax = '0'::xid OR (SELECT started FROM server) <> $2
"""
# On the workers of Citus, ids of transactions and the snapshot of the statement are not those of the coordinator.
ALL = "SELECT slice, (SELECT max(position) FROM event e WHERE e.slice = s.slice) FROM slice_lock s"
PUT_BACK = f"INSERT INTO slice_lock SELECT generate_series(0, {SLICES - 1}) ON CONFLICT DO NOTHING"
MARK = "SELECT 1 FROM slice_lock WHERE xmax = '0'::xid FOR UPDATE SKIP LOCKED"
# An array of transaction ids (type 28) with one dimension, counted from 1; each value has its length before it.
_array_head = Struct("!iiIii").pack(1, 0, 28, SLICES, 1)
_LENGTH = b"\0\0\0\4"
_STEP = len(_LENGTH) + len(UNKNOWN)
NO_MARKS = _array_head + (_LENGTH + UNKNOWN) * SLICES


class _Known(NamedTuple):
    """
    The ends at one moment, with the marks under which they are still right, as a parameter of the statement. The
    reading of them began at `began`.
    """

    ends: Mapping[int, int]
    marks: bytes
    server: int
    full_look_at: float
    began: float = 0.0


NOTHING = _Known({}, NO_MARKS, 0, 0.0)


class Ends:
    """The ends of all slices of a log; may be used by any number of threads, which share what is known."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.is_distributed = False
        self._database = database
        # Replaced as a whole: each value is right by itself.
        self._known = NOTHING
        self._lock = fork_safe_lock()
        self._mark_at = 0.0
        # When they were read, how long that took, and when there was something new.
        self._read_at = self._took = self._changed_at = 0.0
        # The count of the news of this process before the last look.
        self._count = -1

    @property
    def known(self) -> Mapping[int, int]:
        """The ends of the reading that began last of those that are over; events may have come after them."""
        return self._known.ends

    @synchronized
    def forget(self) -> None:
        """Ask every slice the next time."""
        self._known = NOTHING._replace(began=time.monotonic())

    @synchronized
    def _keep(self, known: _Known) -> None:
        # A thread that began to read earlier may finish later: with its older ends, the log would seem to go back.
        if known.began >= self._known.began:
            self._known = known

    def read(self) -> Mapping[int, int]:
        """
        Return the last position of every slice that has one, all as of one moment after this call began.

        Raises:
            DamagedError: a slice has no row; its events would be left out.
        """
        began = time.monotonic()
        if self.is_distributed:
            rows = self._database.ask(Call(ALL))[0]
            _require_all(rows)
            known = NOTHING._replace(ends={number: last for number, last in rows if last is not None})
        else:
            known = self._read_changed(self._known, began)
        self._keep(known._replace(began=began))
        self._took, self._read_at = time.monotonic() - began, began
        return known.ends

    def wait_beyond(self, seen: Moment, news: News, timeout_seconds: float) -> None:
        """Return once there is an event behind `seen`, or after the timeout; `news` are those of this process."""
        deadline, heads = time.monotonic() + timeout_seconds, dict(seen.heads)
        while True:
            count, now = news.count, time.monotonic()
            if now >= self._due(count):
                self._look(count)
            if now >= deadline or any(last > heads.get(number, 0) for number, last in self.known.items()):
                return
            count = news.count
            pause = min(self._due(count), deadline) - time.monotonic()
            if count != self._count:
                # This process appends all the time, and each of its appends would wake this caller.
                time.sleep(max(0.0, pause))
            else:
                news.wait_past(count, timeout_seconds=pause)

    def _due(self, count: int) -> float:
        """Return when the next look is due."""
        idle = self._read_at - self._changed_at if count == self._count else 0.0
        rest = min(max(POLL_SECONDS, PATIENCE * idle), POLL_SECONDS_MAX)
        return self._read_at + max(rest, REST_FACTOR * self._took)

    def _look(self, count: int) -> None:
        """Read the ends for all callers that wait."""
        before = self.known
        if self.read() != before:
            self._changed_at = self._read_at
        self._count = count

    def _read_changed(self, known: _Known, now: float) -> _Known:
        if now >= known.full_look_at:
            known = NOTHING._replace(full_look_at=now + FULL_LOOK_SECONDS)
        rows = self._database.ask(Call(CHANGED, (known.marks, int8(known.server))))[0]
        if known.marks is NO_MARKS:
            _require_all(rows)
        if not rows:
            return known
        ends, marks = dict(known.ends), bytearray(known.marks)
        for number, last, mark, is_over, _ in rows:
            ends.pop(number, None)
            if last is not None:
                ends[number] = last
            if number < SLICES:
                place = len(_array_head) + number * _STEP + len(_LENGTH)
                marks[place : place + len(UNKNOWN)] = mark if is_over else UNKNOWN
        if now >= self._mark_at and any(mark == UNKNOWN for _, _, mark, *_ in rows):
            self._mark(now)
        return _Known(ends, bytes(marks), rows[0][4], known.full_look_at)

    def _mark(self, now: float) -> None:
        # Nothing depends on it; on a standby, or for a user who may only read, it fails.
        self._mark_at = math.inf
        with suppress(StorageError):
            self._database.ask(Call(MARK))
            self._mark_at = now + FULL_LOOK_SECONDS


def _require_all(rows: Rows) -> None:
    missing = SLICES - sum(row[0] < SLICES for row in rows)
    if missing:
        remedy = f"no event is concerned, put them back: {PUT_BACK}"
        raise DamagedError("the table slice_lock", f"{missing:,} of its {SLICES:,} rows are missing", remedy=remedy)
