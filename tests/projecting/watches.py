"""Clocks that a test moves on."""


class HandMoved:
    """A stopwatch that stands still until somebody moves it; it may move on by itself at each look."""

    def __init__(self, *, step: float = 0.0) -> None:
        self.seconds = 100.0
        self._step = step

    def monotonic(self) -> float:
        """Return the time."""
        self.seconds += self._step
        return self.seconds
