"""The questions, one file each; a case is a function that yields rows and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..bench import Bench
from ..rows import Row, Table
from .append import append
from .auditing import audit
from .batches import batch
from .compression import compression
from .containers import containers
from .converting import convert
from .depth import depth
from .editing import edit
from .following import following
from .forking import fork
from .frameworks import MissingFrameworkError, frameworks
from .graphs import graph
from .inspector import MissingBrowserError, inspector
from .large import large
from .loading import load, past, tail
from .moving import moving
from .opening import opening
from .processes import processes
from .rebuild import rebuild
from .size import size
from .streaming import stream
from .threads import threads
from .travelling import travel
from .truncating import truncate
from .trust import trust

__all__ = ["CASES", "Case", "MissingBrowserError", "MissingFrameworkError"]

Case = Callable[[Bench, str], Iterator[Row | Table]]

CASES: dict[str, Case] = {
    "append": append,
    "batch": batch,
    "stream": stream,
    "load": load,
    "tail": tail,
    "past": past,
    "fork": fork,
    "depth": depth,
    "edit": edit,
    "truncate": truncate,
    "convert": convert,
    "containers": containers,
    "open": opening,
    "size": size,
    "threads": threads,
    "processes": processes,
    "rebuild": rebuild,
    "following": following,
    "audit": audit,
    "graph": graph,
    "travel": travel,
    "large": large,
    "inspector": inspector,
    "moving": moving,
    "trust": trust,
    "frameworks": frameworks,
    "compression": compression,
}
