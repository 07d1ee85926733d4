"""Which versions of which streams an event names: what has to be there for it to be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..domain.context.adopt import names_in, streams_said
from ..domain.spans import Span


def named_versions(event: Any, stream: str) -> Iterator[tuple[str, int]]:
    """
    Yield the streams that an event of `stream` names, its own too, each with the last version that it names of it.

    Raises:
        DamagedError: a list of items in it is malformed.
    """
    for other in streams_said(event):
        yield other, 1
    for named in names_in(event):
        # The ends of runs alone: nobody knows how long a list is that a file or a damaged event brings.
        last = max((run.stop - 1 for run in named.ranges()), default=0) if isinstance(named, Span) else named.version
        yield named.stream or stream, max(last, 1)
