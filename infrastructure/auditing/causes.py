"""Because of what? The chain of events that an event follows from, as far as the log has them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...domain.errors import InvalidInputError
from ...domain.ids import split_stream_id, stream_id
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.spans import Ref
from .births import births

# A chain is cut here; who wants more goes on from its last event.
CAUSES_MAX = 64
REFERENCE = re.compile(r"(?P<stream>.+)@(?P<version>[1-9][0-9]{0,17})", re.DOTALL)


def causes_of(log: Log, events: Iterable[RecordedEvent]) -> dict[str, tuple[str, ...]]:
    """
    Return by reference the chains of causes of events: what each follows from, what that follows from, and so on.

    The last one of a chain may be no event of this log: a cause is what the writer said it was.
    """
    cause_of: dict[str, str | None] = {event.reference: event.meta.causation for event in events}
    asked = list(cause_of)
    unknown = _unknown(cause_of)
    for _ in range(CAUSES_MAX):
        if not unknown:
            break
        found = births(log, unknown.values())
        cause_of |= {name: found[ref].meta.causation if ref in found else None for name, ref in unknown.items()}
        unknown = _unknown(cause_of)
    return {reference: _chain(reference, cause_of) for reference in asked}


def _named_in(cause: str) -> Ref | None:
    """Return the event that a cause names; None where it is a text of the writer's own."""
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
    refs = {name: _named_in(name) for name in names}
    return {name: ref for name, ref in refs.items() if ref is not None}


def _chain(reference: str, cause_of: dict[str, str | None]) -> tuple[str, ...]:
    chain: list[str] = []
    cause = cause_of.get(reference)
    while cause is not None and cause not in chain and len(chain) < CAUSES_MAX:
        chain.append(cause)
        cause = cause_of.get(cause)
    return tuple(chain)
