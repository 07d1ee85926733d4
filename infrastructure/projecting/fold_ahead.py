"""
Folding ahead of a long backlog: another process reads and folds pages while this one stores the rows of earlier pages.

Reading and folding searched texts takes as long as storing their rows, so that two processes take little more than half
of the time. The helper is never needed: if it does not begin, fails, meets an event that cannot be folded, or says
nothing for long, this process goes on alone from the last checkpoint, and reports what there is to report.

The helper has the rows of pages that are not stored yet, and reads all others. Its rows of a page are therefore right
only if this process stores all pages before: as soon as another runner comes first, the helper is ended.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import msgspec

from ...domain.concurrency.known_types import known
from ...domain.log.envelope import NO_META, RecordedEvent
from ...domain.log.ports import LiveLog, Page
from ...domain.positions import Moment, Position
from ...projections.contract import Projection, SearchedRow
from ..helper_process import BEGIN as BEGIN_HELPER
from ..helper_process import HelperProcess, can_start, cores, end_with_input, opened, read_task, task_on
from ..log.sqlite.log import SqliteLog
from .builtin import PROJECTIONS
from .folding import Groups, Pages, fold_page
from .rows.checkpoints import types_of
from .rows.sqlite import SqliteProjectionStore
from .store import ProjectionStore, rows_of

# At most this many pages wait to be stored, here and in the helper. A page has about this many bytes.
PAGES_AHEAD, PAGE_BYTES = 4, 4 << 20
# How long to wait for the next message of a helper, which needs some hundredths of a second for a page.
PATIENCE_SECONDS = 60
SIZE_BYTES = 8
BEGIN = BEGIN_HELPER.format(module="projecting.fold_ahead", function="fold_ahead")
log = logging.getLogger("refold.projections")


class FoldedPage(msgspec.Struct, array_like=True, gc=False):
    """
    A page that a helper folded: the moment after it, whether it is the last one, the last event of each slice without
    its payload (stream, version, position, time and digest), and the values of the rows that it changes.
    """

    heads: tuple[tuple[int, int], ...]
    is_last: bool
    last: list[tuple[str, int, Position, int, bytes]]
    values: dict[str, msgspec.Raw]

    @property
    def page(self) -> Page:
        """The page, with the last event of each slice only, and without payloads."""
        events = [
            RecordedEvent(stream, version, position, recorded_at, None, NO_META, digest)
            for stream, version, position, recorded_at, digest in self.last
        ]
        return Page(events, Moment(self.heads))

    def rows(self, projection: Projection) -> dict[str, Any]:
        """Return the rows of a projection that the page changes, by key."""
        values = msgspec.msgpack.decode(self.values[projection.name], type=known(types_of(projection.row)))
        return {row.key: row for row in rows_of(projection.row, values)}


def helper_for(
    events: Any, store: ProjectionStore, projections: Sequence[Projection], until: Moment
) -> FoldingProcess | None:
    """
    Start a helper that folds projections up to a moment; None if that is not worth it, or no process can help.

    It is worth it for searched rows only, which take long to store. The log and the rows must be in an SQLite file, and
    this process must know nothing of them that a helper cannot know. A helper may be unable to import a projection of a
    user.
    """
    is_file = isinstance(events, SqliteLog) and type(store) is SqliteProjectionStore
    if not is_file or events.evidence is not None or not can_start() or cores() < 2:
        return None
    is_known = all(one in PROJECTIONS for one in projections)
    if not is_known or not any(issubclass(one.row, SearchedRow) for one in projections):
        return None
    try:
        task = task_on(events, until)
        return None if task is None else FoldingProcess(task | {"projections": [one.name for one in projections]})
    except Exception as error:
        # If the log is damaged, the reading says so.
        log.info("no other process folds ahead (%r)", error)
        return None


class FoldingProcess(HelperProcess):
    """A process that folds pages ahead, as this process sees it."""

    def __init__(self, task: dict[str, Any]) -> None:
        # Its messages, with None after the last one; and a permit for each page that it may be ahead. Unlike a lock, a
        # queue is still usable after an interrupt.
        self._messages: SimpleQueue[bytes | None] = SimpleQueue()
        self._permits: SimpleQueue[bool] = SimpleQueue()
        for _ in range(PAGES_AHEAD):
            self._permits.put(True)
        # The moment after the last page; None until it was sent where to begin.
        self._moment: Moment | None = None
        self.is_over = False
        super().__init__(BEGIN, task)

    def _listen(self) -> None:
        try:
            while size := self._output.read(SIZE_BYTES):
                message = self._output.read(int.from_bytes(size))
                if len(message) < int.from_bytes(size) or not self._permits.get():
                    break
                self._messages.put(message)
        except (OSError, ValueError, OverflowError, MemoryError) as error:
            log.info("the messages of a helper cannot be read: %r", error)
        finally:
            self._messages.put(None)

    def end(self) -> None:
        # This comes first: an interrupt after it leaves no process behind.
        self._process.kill()
        self.is_over = True
        # The thread that reads may wait for a permit; it takes at most as many more messages as there are permits.
        self._permits.put(False)
        super().end()

    def after(self, moment: Moment, limit: int) -> FoldedPage | None:
        """Return the page after a moment, with up to `limit` events; None if this process has to fold it itself."""
        if self.is_over or (self._moment is None and self._messages.empty()):
            # Do not wait for it: the helper begins after the pages that this process folds meanwhile.
            return None
        try:
            if self._moment is None:
                self._begin(moment, limit)
            if self._moment != moment:
                raise ValueError(f"it is at {self._moment}, and the rows are at {moment}")
            page = msgspec.msgpack.decode(self._next_message(), type=known(FoldedPage))
        except Exception as error:
            log.info("this process goes on alone at %s (%r)", moment, error)
            self.end()
            return None
        self._moment = Moment(page.heads)
        return page

    def _begin(self, moment: Moment, limit: int) -> None:
        """Wait for its first message, which says that it is ready; then send it where to begin."""
        self._next_message()
        self._moment = moment
        self._send(f"{moment} {limit}\n")

    def _next_message(self) -> bytes:
        """
        Return its next message.

        Raises:
            EOFError: it has ended.
            Empty: it sends nothing for long.
        """
        message = self._messages.get(timeout=PATIENCE_SECONDS)
        if message is None:
            raise EOFError("it has ended")
        self._permits.put(True)
        return message


# In the process of a helper


class _RowsAhead:
    """The rows as they are before a page: those of pages that are not stored yet, over the stored ones."""

    def __init__(self, store: ProjectionStore, projections: Iterable[Projection]) -> None:
        self._store = store
        self._pages: dict[str, deque[tuple[Moment, Mapping[str, Any]]]] = {one.name: deque() for one in projections}

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        pages = self._pages[projection.name]
        # In this order: the rows that are read then are at least as new as the checkpoint.
        stored = self._store.checkpoint(projection)
        while pages and stored.includes(pages[0][0]):
            pages.popleft()
        wanted = [*keys]
        found = self._store.load(projection, wanted)
        for _, rows in pages:
            found.update((key, rows[key]) for key in wanted if key in rows)
        return found

    def add(self, projection: Projection, moment: Moment, rows: Mapping[str, Any]) -> None:
        """Take the rows that a page changed."""
        if rows:
            self._pages[projection.name].append((moment, rows))


def fold_ahead() -> None:
    """Read a task from the input, and write the rows that the events of its log give, page by page."""
    task = read_task()
    known = {one.name: one for one in PROJECTIONS}
    projections = [known[name] for name in task["projections"]]
    with opened(task) as found:
        if found is None:
            return
        events, kept = found
        _write(b"")
        begin = sys.stdin.buffer.readline().decode().split()
        if begin:
            end_with_input()
            # Modules and their classes stay until the end, so the garbage collector can skip them.
            gc.freeze()
            _fold(events, kept, projections, Moment.parse(begin[0]), Moment.parse(task["end"]), int(begin[1]))


def _fold(
    events: LiveLog, kept: ProjectionStore, projections: Sequence[Projection], begin: Moment, end: Moment, limit: int
) -> None:
    pages, before = Pages(events, end, Groups(None, 1)), _RowsAhead(kept, projections)
    moment, is_last, count = begin, False, limit
    while not is_last:
        page, is_last, undecodable = pages.read(moment, count)
        if undecodable:
            # The other process can go on without such an event.
            return
        moment, values = page.moment, {}
        for projection in projections:
            rows = fold_page(projection, page.events, before)
            before.add(projection, moment, rows)
            values[projection.name] = [*map(msgspec.structs.astuple, rows.values())]
        last = {one.position.slice: one for one in page.events}.values()
        ends = [(one.stream, one.version, one.position, one.recorded_at, one.digest) for one in last]
        message = msgspec.msgpack.encode((moment.heads, is_last, ends, values))
        _write(message)
        count = min(limit, max(1, count * PAGE_BYTES // len(message)))


def _write(message: bytes) -> None:
    sys.stdout.buffer.write(len(message).to_bytes(SIZE_BYTES) + message)
    sys.stdout.buffer.flush()
