"""How far a run's stream goes, with what this process has queued for it."""

from __future__ import annotations

from ..home import Home
from ..ports import StreamEnd


def flushed_end(home: Home, stream: str) -> StreamEnd:
    """
    Return the end of a stream, once all that was queued for it here is in the log.

    The object that queued it may be gone, and who asks for the run again shall see what it left.

    Raises:
        ConcurrencyError, StorageError: what was queued did not get in.
    """
    for journal in list(home.unflushed or ()):
        if journal.place.stream == stream:
            journal.flush()
    return home.log.end(stream)
