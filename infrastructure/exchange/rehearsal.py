"""
Rehearsing the import of a file: each stream that is new or grows is folded, shown, audited and projected in memory,
before anything is written. This finds events that are valid one by one but do not fit together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from ...domain.chat.events import ITEM_EVENTS, Opened
from ...domain.clock import REAL_SYSTEM
from ...domain.errors import InvalidInputError, RefusedError, StorageError, reason_of
from ...domain.formats.anthropic import source_shape as anthropic_shape
from ...domain.formats.openai import source_shape as openai_shape
from ...domain.ids import decoded_id, split_stream_id
from ...domain.log.envelope import Event, Meta, RecordedEvent
from ...domain.log.overlay_log import OverlayLog
from ...domain.log.ports import LiveLog, Range, StreamEnd
from ...domain.positions import Moment, Position
from ...domain.trajectory.identity import run_id_of
from ..files import reading_file
from ..projecting.builtin import PROJECTIONS
from ..projecting.folding import fold_one_by_one, fold_page
from ..projecting.store import MemoryProjectionStore, Save
from ..queries.audit import context_changes, run_changes, transitions_of
from ..store import Store
from .event_files import event_at

PAGE_EVENTS = 2_048
# Up to this many events are kept, because events of streams that others name are read again and again.
EVENTS_KEPT_MAX = 16_384
# A chat with these events only is a list of items; an audit of it would find nothing that showing it does not find.
PLAIN = (Opened, *ITEM_EVENTS)
SHOWN = {
    "chat": ("messages", "evicted_items"),
    "queue": ("to_dict", "evicted"),
    "pool": ("to_dict", "evicted"),
    "window": ("build", "evicted", "dropped"),
    "memory": ("search", "history"),
}
# These calls are checked because they rebuild imported messages from the data in their origin.
CONVERTED = ("to_openai_messages", "to_openai_responses", "to_anthropic_messages", "to_google_json")


def rehearse(path: Path, log: LiveLog, places: Mapping[str, array[int]]) -> None:
    """
    Read the streams of a file as if they were in a log; `places` has the offset of each of their lines.

    Raises:
        InvalidInputError: a question about one of them would fail.
        StorageError: the log cannot be read.
    """
    with reading_file(path) as file:
        ahead = _LogAhead(file, log, places)
        for stream in places:
            try:
                require_projectable(ahead, stream)
                _look_at(ahead, stream)
            except StorageError:
                raise
            except Exception as error:
                raise InvalidInputError(
                    f"{path} has events of {stream} that do not fit together: {reason_of(error)}; "
                    "export it again, or leave that context out"
                ) from error


def store_above(store: Store) -> Store:
    """
    Return a store in memory on top of another one.

    It is used for a rehearsal: a change that the other store would refuse is refused here, before anything is written.
    """
    log: Any = OverlayLog(store.log, store.now(), REAL_SYSTEM)
    return Store(log, MemoryProjectionStore())


def require_projectable(log: Any, stream: str) -> None:
    """
    Fold a stream into the rows of every projection, and drop the rows; `log` needs only the methods that this uses.

    Raises:
        InvalidInputError: a projection cannot fold an event.
    """
    rows = MemoryProjectionStore()
    for after in range(0, log.head(stream), PAGE_EVENTS):
        page = log.read(stream, after=after, until=after + PAGE_EVENTS)
        for projection in PROJECTIONS:
            try:
                changed = fold_page(projection, page, rows)
            except Exception as error:
                faults = fold_one_by_one(projection, page, rows, {}).aside
                reason = f"{faults[0].event}: {faults[0].error}" if faults else error
                raise InvalidInputError(f"the projection {projection.name} cannot fold {reason}") from error
            (before,) = rows.checkpoints(projection)
            rows.save(Save(projection, changed, before, Moment.of({-1: after + len(page)})))


class _LogAhead:
    """A log as it would be after the import of a file; it has the methods that contexts and audits need."""

    def __init__(self, file: IO[bytes], log: LiveLog, places: Mapping[str, array[int]]) -> None:
        self._file, self._log, self._places = file, log, places
        self._kept: dict[str, list[Event]] = {}

    def head(self, stream: str) -> int:
        return len(self._places[stream]) if stream in self._places else self._log.head(stream)

    def end(self, stream: str) -> StreamEnd:
        # The digest is unknown, because it is only computed by the append.
        return StreamEnd(self.head(stream))

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[RecordedEvent]:
        if stream not in self._places:
            return self._log.read(stream, after=after, until=until)
        now = round(REAL_SYSTEM.now() * 1e6)
        lines = enumerate(self._lines(stream, after, until), after + 1)
        return [
            RecordedEvent(stream, version, Position(-1, version), now, event, meta, b"")
            for version, (event, meta) in lines
        ]

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        if stream not in self._places:
            return self._log.read_events(stream, after=after, until=until)
        if stream not in self._kept and self.head(stream) <= EVENTS_KEPT_MAX:
            self._kept[stream] = [event for event, _ in self._lines(stream, 0, None)]
            while sum(map(len, self._kept.values())) > EVENTS_KEPT_MAX:
                # Drop the stream that was read first.
                del self._kept[next(iter(self._kept))]
        kept = self._kept.get(stream)
        return [event for event, _ in self._lines(stream, after, until)] if kept is None else kept[after:until]

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        return [self.read_events(one.stream, after=one.after, until=one.until) for one in ranges]

    def _lines(self, stream: str, after: int, until: int | None) -> Iterator[tuple[Event, Meta]]:
        return (event_at(self._file, place) for place in self._places[stream][after:until])


def _look_at(ahead: Any, stream: str) -> None:
    """Read the views and the audit of a context; `ahead` has all methods of a log that they need."""
    kind, context_id = split_stream_id(stream)
    # This store only reads, and its rows are dropped with it.
    store: Any = Store(ahead, MemoryProjectionStore())
    if kind == "run":
        run = store.run(*run_id_of(context_id), create=False)
        for ask in (run.graph, run.steps, run.messages, *(partial(run.node, name) for name in run.nodes())):
            ask()
        transitions_of(ahead, run_changes(ahead, run, run.version))
        return
    events = ahead.read_events(stream)
    if kind == "memory":
        context = store.memory().scope(decoded_id(context_id))
    else:
        context = getattr(store, kind)(context_id, create=False)
    asked = [getattr(context, name) for name in SHOWN[kind]]
    if any(getattr(event, "origin", None) is not None for event in events):
        items = [event for event in events if isinstance(event, ITEM_EVENTS)]
        for shape in (openai_shape, anthropic_shape):
            shape.require_shape(items)
        asked += [getattr(context, name) for name in CONVERTED] + [partial(context.to_openai_messages, exact=True)]
    for ask in asked:
        # A refusal is no fault: a provider may not accept an item, and the class of a content may be missing here.
        with suppress(RefusedError):
            ask()
    if kind != "chat" or not all(isinstance(event, PLAIN) for event in events):
        transitions_of(ahead, context_changes(ahead, stream, len(events)))
