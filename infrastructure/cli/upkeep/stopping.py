"""Being asked to stop by Ctrl-C or by the system, and finishing first what is being done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ASKING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Yield an event that is set when somebody asks to stop; who asks a second time is obeyed at once."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[number])

    before = {int(number): signal.signal(number, ask) for number in ASKING}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
