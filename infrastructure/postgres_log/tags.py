"""The types of events: each has a number, given out when it first occurs, and kept for ever."""

from __future__ import annotations

from collections.abc import Set

from ...domain.errors import StorageBusyError
from .wire import Call, Wire, int4

ATTEMPTS_MAX = 10


def learn_tags(wire: Wire, table: str, wanted: Set[str]) -> dict[str, bytes]:
    """
    Return the numbers of all tags, once those that are wanted have one.

    New ones are added in transactions of their own, since others may be about to add the same.

    Raises:
        StorageBusyError: others were quicker each time.
    """
    for _ in range(ATTEMPTS_MAX):
        rows = wire.run(Call(f"SELECT name, key FROM {table}"))[0]
        known = {name: int4(key) for name, key in rows}
        missing = sorted(wanted - known.keys())
        if not missing:
            return known
        last = max((key for _, key in rows), default=0)
        insert = f"INSERT INTO {table} VALUES ($1, $2) ON CONFLICT DO NOTHING"
        wire.run(*(Call(insert, (int4(key), name.encode())) for key, name in enumerate(missing, last + 1)))
    raise StorageBusyError(f"new types of events could not be added to {table}: others did so all the time, try again")
