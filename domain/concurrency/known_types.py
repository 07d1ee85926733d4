"""
Types that msgspec reads values into, each made known to it by one thread at a time.

When msgspec first meets a Struct, it begins a note of its fields, and looks at the Structs in them. Another thread that
finds this note takes it for a whole one, and the process ends with a segmentation fault. A test in tests/house checks
that every type that may hold a Struct is known before a value is read into it.
"""

from typing import TypeVar

import msgspec

from .locks import fork_safe_lock, locked

T = TypeVar("T")
_MAKING = fork_safe_lock()
_KNOWN = set[object]()


def known(kind: T) -> T:
    """
    Return a type into which any thread may read values from now on.

    Raises:
        TypeError, NameError: msgspec cannot read values into it.
    """
    if kind not in _KNOWN:
        locked(_MAKING, _make_known, kind)
    return kind


def _make_known(kind: object) -> None:
    msgspec.msgpack.Decoder(kind)
    _KNOWN.add(kind)
