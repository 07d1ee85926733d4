"""Waits for threads, processes and servers."""

import time
from collections.abc import Callable

SOON_SECONDS = 10.0


def soon(is_so: Callable[[], bool], seconds: float = SOON_SECONDS) -> bool:
    """Wait for some time until a condition is true, and return whether it is."""
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.005)
    return is_so()
