"""Which events a subscriber wants: all of them, or those of some kinds of contexts, or of some contexts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..domain.errors import InvalidInputError
from ..domain.ids import split_stream_id
from ..domain.log.envelope import RecordedEvent

KINDS = ("chat", "queue", "pool", "window", "memory", "run")


class Wanted(NamedTuple):
    """Events of these kinds of contexts, and of these streams; None stands for any."""

    kinds: frozenset[str] | None = None
    streams: frozenset[str] | None = None

    def has(self, event: RecordedEvent) -> bool:
        """Return whether an event is wanted."""
        if self.streams is not None and event.stream not in self.streams:
            return False
        return self.kinds is None or split_stream_id(event.stream)[0] in self.kinds


EVERYTHING = Wanted()


def wanted(kinds: Iterable[str] | None, contexts: Iterable[str] | None) -> Wanted:
    """
    Return what a subscriber wants who names kinds, and contexts as `kind:id`.

    Raises:
        InvalidInputError: there is no such kind, or a context is named without its kind.
    """
    asked = None if kinds is None else frozenset([kinds] if isinstance(kinds, str) else kinds)
    streams = None if contexts is None else frozenset([contexts] if isinstance(contexts, str) else contexts)
    unknown = sorted((asked or frozenset()) - set(KINDS))
    if unknown:
        raise InvalidInputError(f"there is no kind of context {unknown[0]!r}: there are {', '.join(KINDS)}")
    for stream in sorted(streams or ()):
        if split_stream_id(stream)[0] not in KINDS or ":" not in stream:
            raise InvalidInputError(
                f"{stream!r} names no context: write its kind before its id, as in 'chat:support-42'"
            )
    return Wanted(asked, streams)
