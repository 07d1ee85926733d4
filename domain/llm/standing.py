"""
Which of several providers is to be asked: who failed when, how often, and who comes next.

Plain values and no clock: the moment is handed in, in seconds that never go back.
"""

from __future__ import annotations


class Standing:
    """
    The place of each provider in a list (SPEC V14.8 to V14.13).

    One that failed rests for `rest_seconds`, and for good after `attempts_allowed` failures. The last one
    stays in place when there is no other.
    """

    def __init__(self, count: int, *, rest_seconds: float, attempts_allowed: int) -> None:
        self._count, self._rest_seconds, self._attempts_allowed = count, rest_seconds, attempts_allowed
        self._failed_at: dict[int, float] = {}
        self.active = 0
        self.attempts: dict[int, int] = {}

    def next_after(self, index: int) -> int | None:
        """Return the provider to go on with when this one failed, or None."""
        # Those behind it have failed no more often than it has, so none of them is out before it is.
        return index + 1 if index + 1 < self._count else None

    def fail(self, index: int, now: float) -> None:
        """Count a failure of the active provider and go on to the next; that of another one changes nothing."""
        if index != self.active:
            # Somebody else's call failed there as well, and has moved on: one outage counts once.
            return
        self.attempts[index] = self.attempts.get(index, 0) + 1
        self._failed_at[index] = now
        following = self.next_after(index)
        self.active = index if following is None else following

    def recover(self, now: float) -> bool:
        """Go back to the first provider before the active one that has rested enough; return whether there is one."""
        for index in range(self.active):
            # All before the active one have failed, or it would not be active.
            is_out = self.attempts[index] >= self._attempts_allowed
            if not is_out and now - self._failed_at[index] > self._rest_seconds:
                self.active = index
                return True
        return False


class LatencyWatch:
    """Counts answers in a row that began late (SPEC V14.14); without a threshold none is late."""

    def __init__(self, threshold_ms: float | None, hits_needed: int) -> None:
        self._threshold_ms, self._hits_needed = threshold_ms, max(1, hits_needed)
        self.hits = 0

    def is_too_slow(self, latency_ms: float) -> bool:
        """Take in one more answer; return whether enough of them in a row were late."""
        if self._threshold_ms is None:
            return False
        self.hits = self.hits + 1 if latency_ms > self._threshold_ms else 0
        return self.hits >= self._hits_needed
