"""An event loop in a separate thread, for stores that belong to one loop and are called from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any


class Loop:
    """Runs coroutines in its thread; callers wait for them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine and return its result."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()
