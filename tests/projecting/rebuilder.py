"""
The one that is killed.

It rebuilds all projections at once, a thread each; every rebuild prints its name when it has half of the events behind
it, and stands still.
"""

import sys
import threading

import refold
from refold.infrastructure.projecting.shadow import RebuildProgress

from .small_pages import with_small_pages


def stand_still(progress: RebuildProgress) -> None:
    """Go no further than half of the way."""
    if 2 * progress.done >= progress.total:
        # In one piece: other threads do the same.
        sys.stdout.write(f"{progress.projection}\n")
        sys.stdout.flush()
        threading.Event().wait()


def main(place: str) -> None:
    """Rebuild everything, and be killed."""
    with_small_pages()
    store = refold.open(place)
    names = [status.name for status in store.projections()]
    threads = [threading.Thread(target=store.rebuild, args=(name,), kwargs={"progress": stand_still}) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
