"""
What is said of rows beside the events that are missing, or are not what the events say: the same for every database.
"""

from __future__ import annotations

from ..domain.errors import DamagedError

__all__ = ["empty_key", "nameless_type"]


def nameless_type(stream: str, version: int, tag: int) -> DamagedError:
    """
    Return the error of an event whose type has no row.
    """
    return DamagedError(f"{stream}@{version}", f"there is no row with the name of its type, {tag}")


def empty_key(stream: str, key: str, first: int, last: int, head: int) -> DamagedError:
    """
    Return the error of an idempotency key that names versions which are not there.
    """
    return DamagedError(stream, f"its key {key!r} names versions {first} to {last}, and it ends at version {head}")
