"""A pause of the garbage collector while very many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# The collector goes over fewer objects than this only a few times while they are made.
MANY = 1_000


@contextmanager
def uncollected(count: int) -> Iterator[None]:
    """
    Do not collect within the block, if it makes so many objects that it is worth while.

    The collector would go over all of them several times while they are made, and over everything else that the
    program holds; there is nothing for it to find. The block must not wait for anything, since nothing is collected in
    other threads either.
    """
    is_collecting = count >= MANY and gc.isenabled()
    try:
        if is_collecting:
            gc.disable()
        yield
    finally:
        if is_collecting:
            gc.enable()
