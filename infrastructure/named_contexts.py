"""Contexts by their names, with the kind in front or without."""

from __future__ import annotations

from collections.abc import Sequence

from ..domain.errors import InvalidInputError, NotFoundError
from ..domain.log.ports import Log

# The kinds that hold items.
ITEM_KINDS = ("chat", "queue", "pool", "window", "memory")
KINDS = (*ITEM_KINDS, "run")


def context_named(log: Log, name: str, kinds: Sequence[str] = KINDS) -> str:
    """
    Return the stream of the context that is named, among those of some kinds.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: there are several, of different kinds.
    """
    streams = streams_named(log, name, kinds)
    if len(streams) > 1:
        raise InvalidInputError(f"{name!r} can mean {' or '.join(streams)}: write it with its kind in front")
    if not streams:
        raise NotFoundError(f"there is no context {name!r}: `refold contexts` lists them")
    return streams[0]


def streams_named(log: Log, name: str, kinds: Sequence[str]) -> list[str]:
    """Return the streams that a name can mean and that exist, of some kinds."""
    named = [name] if name.partition(":")[0] in kinds else []
    return [stream for stream in (*named, *(f"{kind}:{name}" for kind in kinds)) if log.head(stream)]
