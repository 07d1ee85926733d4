"""
Erasures that were cut off before their last look through the log: what others had made of the texts by then.

The events of an erasure say what it took. From them whoever finishes it knows what to look for, and until when: what is
recorded later was made of what was left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any

from ...domain.erasure.events import STREAM, Erasures, StoreErased, fold, subject_hash
from ...domain.erasure.skeleton import Mask, skeleton_of
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog
from ...domain.positions import BEGINNING
from ...domain.spans import Span
from .selection import PAGE_EVENTS, Selection

# So many events of the stream are looked at when a store is opened: an erasure that did not finish is among the last.
RECENT_EVENTS = 64


def unfinished_in(log: LiveLog) -> Collection[str]:
    """Return the ids of the erasures that a log has and that nobody has finished."""
    recent: Any = log.read_events(STREAM, after=max(0, log.head(STREAM) - RECENT_EVENTS))
    return fold(Erasures(), recent).unfinished


def selections_left(log: LiveLog, unfinished: Collection[str]) -> Iterator[tuple[StoreErased, Selection]]:
    """Yield, of each of these erasures, what its events have in common, and the selection to be completed."""
    made: dict[str, list[RecordedEvent]] = {}
    for recorded in log.read(STREAM):
        event = recorded.event
        # What others make of archived texts stays when these go away, and when they come back.
        if isinstance(event, StoreErased) and event.erasure in unfinished and event.scope != "archive":
            made.setdefault(event.erasure, []).append(recorded)
    for some in made.values():
        events = [one.event for one in some if isinstance(one.event, StoreErased)]
        yield events[0], _selection(log, events, max(one.recorded_at for one in some))


def _selection(log: LiveLog, events: Sequence[StoreErased], until: int) -> Selection:
    user = _user(log, events[0], until)
    selection = Selection(log, Mask(user, events[0].salt))
    selection.until, selection.lost = until, set()
    selection.whole.update(chain.from_iterable(one.whole for one in events))
    for erased in chain.from_iterable(one.erased for one in events):
        stream, named = erased.stream, {version for version, _ in erased.versions()}
        if stream in selection.whole:
            # Without a user, others may have gone on in it.
            end = log.version_at(stream, until) if events[0].subject else max(named)
            selection.ends[stream] = max(end, selection.ends.get(stream, 0))
        else:
            selection.versions.setdefault(stream, set()).update(_without_text(selection, stream, named))
    return selection


def _without_text(selection: Selection, stream: str, versions: set[int]) -> Iterator[int]:
    """Yield which of these events lost their texts; the others lost the name of the user alone."""
    for found in Span.of(stream, sorted(versions)).ranges():
        recorded = selection.read(stream, found.start - 1, found.stop - 1)
        yield from (one.version for one in recorded if skeleton_of(one.event) is one.event)


def _user(log: LiveLog, event: StoreErased, until: int) -> str | None:
    """Return the name of the user that was erased, if something that was recorded by then still has it."""
    if not event.subject:
        return None
    looked_at: set[str | None] = {None}
    moment = BEGINNING
    while (page := log.read_all(after=moment, limit=PAGE_EVENTS, undecodable=True)).events:
        for one in page.events:
            for name in {one.meta.actor, getattr(one.event, "user", None)} - looked_at:
                looked_at.add(name)
                is_name = isinstance(name, str) and one.recorded_at <= until
                if is_name and subject_hash(str(name), event.salt) == event.subject:
                    return str(name)
        moment = page.moment
    return None
