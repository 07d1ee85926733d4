"""What must come of damage: an error that names it, in every way of reading, and never other events."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from refold.domain.errors import DamagedError
from refold.domain.ports import LiveLog, Range

from .writing import everything

A, B = "chat:a", "chat:b"
FLIPS = (0x01, 0x10, 0x80, 0xFF)
LARGE = "a large text, stored once. " * 300


def ways_to_read(log: LiveLog, stream: str = A) -> dict[str, Callable[[], Sequence[Any]]]:
    """
    Return every way in which the events of a stream can be read.
    """
    return {
        "read": lambda: [recorded.event for recorded in log.read(stream)],
        "read_events": lambda: log.read_events(stream),
        "read_ranges": lambda: one_by_one(log, stream),
        "read_all": lambda: [one.event for one in everything(log) if one.stream == stream],
    }


def one_by_one(log: LiveLog, stream: str) -> list[Any]:
    """
    Read each event of a stream as a range of its own.
    """
    ranges = [Range(stream, version, version + 1) for version in range(log.head(stream))]
    return [event for events in log.read_ranges(ranges) for event in events]


def require_damage(log: LiveLog, naming: str, *, stream: str = A, ways: Sequence[str] = ()) -> None:
    """
    Require that reading raises an error that names what is damaged, in every way of reading or in those given.
    """
    for name, read in ways_to_read(log, stream).items():
        if ways and name not in ways:
            continue
        with pytest.raises(DamagedError, match=naming):
            pytest.fail(f"{name} gave {len(read())} events")


def require_damage_or_the_same(log: LiveLog, wanted: Sequence[Any]) -> int:
    """
    Require that every way of reading raises DamagedError or gives what was written; count those that raise.
    """
    raised = 0
    for name, read in ways_to_read(log).items():
        try:
            found = read()
        except DamagedError:
            raised += 1
            continue
        is_the_same = list(found) == list(wanted)
        assert is_the_same, f"{name} gave something else"
    return raised


def damaged_values(value: bytes, *, step: int = 1) -> list[bytes]:
    """
    Return what becomes of a value when each byte (or each `step`th) is flipped in several ways.
    """
    return [
        value[:place] + bytes([value[place] ^ flip]) + value[place + 1 :]
        for place in range(0, len(value), step)
        for flip in FLIPS
    ]
