"""Origins of items: the events that first recorded them; and the chain of causes of an event."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...domain.chat.events import PIECES, ChatItemEvent, MessageFinished, Piece
from ...domain.errors import InvalidInputError
from ...domain.ids import split_stream_id, stream_id
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log, Range
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent
from ...domain.spans import Ref
from ...domain.window.events import WindowItemEvent

# The items of all kinds of contexts.
Item = ChatItemEvent | AddedEvent | WindowItemEvent | MemoryRemembered
# A chain is cut after this many causes; for more, ask again from its last event.
CAUSES_MAX = 64
# The events that are read at once to put a message together.
PIECES_READ = 256
REFERENCE = re.compile(r"(?P<stream>.+)@(?P<version>[1-9][0-9]{0,17})", re.DOTALL)


def id_of(item: Item) -> str | None:
    """Return the id or the key of an item; None if it has neither."""
    return item.key if isinstance(item, WindowItemEvent | MemoryRemembered) else item.id


def named_so(name: str, stream: str) -> frozenset[str]:
    """
    Return the origins that a name can mean in a context.

    It may be given as `stream@version`, as `@version` of this context, or as `id@version` of another chat.
    """
    return frozenset((name, f"{stream}{name}", f"chat:{name}"))


def event_at(log: Log, stream: str, version: int) -> RecordedEvent | None:
    """Return the event that made a version; None for version 0, which is before the first event."""
    found = log.read(stream, after=version - 1, until=version) if version else []
    return found[0] if found else None


def first_events(log: Log, refs: Iterable[Ref]) -> dict[Ref, RecordedEvent]:
    """Return the events that first recorded items, given by references with streams."""
    # Imported here, because it imports a compressor, which the help of commands does not need.
    from ..log.records import batches

    versions: dict[str, set[int]] = {}
    for ref in refs:
        versions.setdefault(ref.stream, set()).add(ref.version)
    return {
        Ref(recorded.version, stream): recorded
        for stream, wanted in versions.items()
        for near in batches([Range(stream, version - 1, version) for version in sorted(wanted)])
        for recorded in log.read(stream, after=near.after, until=near.until)
        if recorded.version in wanted
    }


def pieces_of(log: Log, stream: str, version: int) -> list[tuple[int, Piece]]:
    """Return the pieces of the message that a version began, each with its own version, as far as they are written."""
    pieces: list[tuple[int, Piece]] = []
    head, after = log.head(stream), version
    while after < head and not (pieces and isinstance(pieces[-1][1], MessageFinished)):
        until = min(head, after + PIECES_READ)
        read = enumerate(log.read_events(stream, after=after, until=until), after + 1)
        pieces += [(number, one) for number, one in read if isinstance(one, PIECES) and one.item == Ref(version)]
        after = until
    return pieces


def causes_of(log: Log, events: Iterable[RecordedEvent]) -> dict[str, tuple[str, ...]]:
    """
    Return by reference the chains of causes of events: the cause of each event, the cause of that one, and so on.

    The last cause of a chain may be no event of this log, because the writer of an event may give any text as cause.
    """
    cause_of: dict[str, str | None] = {event.reference: event.meta.causation for event in events}
    asked = list(cause_of)
    unknown = _unknown(cause_of)
    for _ in range(CAUSES_MAX):
        if not unknown:
            break
        found = first_events(log, unknown.values())
        cause_of |= {name: found[ref].meta.causation if ref in found else None for name, ref in unknown.items()}
        unknown = _unknown(cause_of)
    return {reference: _chain(reference, cause_of) for reference in asked}


def reference_in(cause: str) -> Ref | None:
    """Return the reference of the event that a cause names; None if the cause is some other text of the writer."""
    found = REFERENCE.fullmatch(cause)
    if found is None:
        return None
    stream = found["stream"]
    try:
        is_stream = stream_id(*split_stream_id(stream)) == stream
    except InvalidInputError:
        return None
    return Ref(int(found["version"]), stream) if is_stream else None


def _unknown(cause_of: dict[str, str | None]) -> dict[str, Ref]:
    names = {cause for cause in cause_of.values() if cause is not None and cause not in cause_of}
    refs = {name: reference_in(name) for name in names}
    return {name: ref for name, ref in refs.items() if ref is not None}


def _chain(reference: str, cause_of: dict[str, str | None]) -> tuple[str, ...]:
    chain: list[str] = []
    cause = cause_of.get(reference)
    while cause is not None and cause not in chain and len(chain) < CAUSES_MAX:
        chain.append(cause)
        cause = cause_of.get(cause)
    return tuple(chain)
