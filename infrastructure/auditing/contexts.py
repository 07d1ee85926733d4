"""What became of a context and of all in it, event by event, whatever its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...domain.chat.state.fold import EMPTY, fold
from ...domain.chat.state.loading import complete
from ...domain.chat.state.sequence import Items
from ...domain.context.decider import trusted
from ...domain.ids import split_stream_id
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.pool import state as containers
from ...domain.pool.state import complete as container_events
from ...domain.spans import Ref
from .births import Item, births, full_ref
from .chats import chat_changes
from .folded import container_changes, memory_changes, window_changes
from .trail import Change, Trail

Reader = Callable[[Sequence[Ref]], Mapping[Ref, Item]]

CHANGES: dict[str, Callable[[RecordedEvent, Trail], Iterator[Change]]] = {
    "chat": chat_changes,
    "queue": container_changes,
    "pool": container_changes,
    "window": window_changes,
    "memory": memory_changes,
}


def context_changes(log: Log, stream: str, version: int) -> Iterator[Change]:
    """
    Yield what became of a context that holds items, and of its items, up to a version, oldest first.

    What a fork begins with came before its own events.
    """
    kind = split_stream_id(stream)[0]
    with trusted(stream):
        reader = _chat_reader if kind == "chat" else _births_reader
        trail = Trail(stream, reader(log, stream, version), began_with(log, stream) if version else {})
        for recorded in log.read(stream, until=version):
            yield from CHANGES[kind](recorded, trail)


def began_with(log: Log, stream: str) -> dict[Ref, Item]:
    """Return the items that a fork or branch began with; other contexts began with none."""
    kind = split_stream_id(stream)[0]
    if kind == "chat":
        first = _chat_items(log, stream, 1)
        return {full_ref(first.ref(ordinal), stream): first.arena.items[ordinal] for ordinal in first.order()}
    if kind not in ("queue", "pool"):
        return {}
    state = containers.fold(containers.EMPTY, container_events(log, log.read_events(stream, until=1)))
    return {full_ref(held.ref, stream): held.event for held in state.items.values()}


def _chat_reader(log: Log, stream: str, version: int) -> Reader:
    held = _chat_items(log, stream, version)

    def read(refs: Sequence[Ref]) -> Mapping[Ref, Item]:
        ordinals = {ref: held.of_ref(Ref(ref.version) if ref.stream == stream else ref) for ref in refs}
        return {ref: held.arena.items[ordinal] for ref, ordinal in ordinals.items() if ordinal is not None}

    return read


def _chat_items(log: Log, stream: str, version: int) -> Items:
    return fold(EMPTY, complete(log, log.read_events(stream, until=version))).items


def _births_reader(log: Log, stream: str, version: int) -> Reader:
    def read(refs: Sequence[Ref]) -> Mapping[Ref, Item]:
        born = births(log, refs)
        return {ref: born[ref].event for ref in refs}

    return read
