"""
Events against their digests, many at once, and which of them were found to be right already.

To compute a digest takes as long as to fetch and decode its event, so it is done once in a process: what was checked is
remembered by a hash of all that was hashed. A checksum that lies beside the events proves nothing: whoever can change
them can compute it anew (docs/adr/0022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...domain.errors import DamagedError

# Of a hash or two for each 64 events: 4 MB at most.
CHECKED_MAX = 1 << 15


class CheckedBefore:
    """The events that this process has checked, by hashes; any number of threads may use it."""

    def __init__(self) -> None:
        self._hashes: set[bytes] = set()

    def __contains__(self, checked: bytes) -> bool:
        return checked in self._hashes

    def add(self, checked: bytes) -> None:
        """Remember a hash; where there are too many of them, all others are forgotten, and computed once more."""
        if len(self._hashes) >= CHECKED_MAX:
            self._hashes = set()
        self._hashes.add(checked)


def require_digests(computed: Iterable[bytes], stored: Sequence[bytes], name: Callable[[int], str]) -> None:
    """
    See to it that events have the digests that are stored with them; `name` says what the n-th is, for the error.

    Raises:
        DamagedError: one has not.
    """
    found = list(computed)
    if found != stored:
        first = next(place for place, digest in enumerate(stored) if found[place] != digest)
        raise DamagedError(name(first), "it does not match its digest")
