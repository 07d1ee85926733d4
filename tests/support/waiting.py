"""Waiting for what others do: threads, processes and servers."""

import time
from collections.abc import Callable

SOON_SECONDS = 10.0


def soon(is_so: Callable[[], bool], seconds: float = SOON_SECONDS) -> bool:
    """Wait until something is so, for a while, and return whether it is."""
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.005)
    return is_so()
