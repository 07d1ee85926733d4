"""What must come of damage: an error that names it, in every way of reading, and never other events."""

import functools
import re
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import zstandard

from refold.domain.errors import DamagedError
from refold.domain.ports import LiveLog, Range
from refold.infrastructure.compression import EXPANDED_MAX
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from .writing import everything

A, B = "chat:a", "chat:b"
FLIPS = (0x01, 0x10, 0x80, 0xFF)
BOMBS = ("says how large it is", "says less", "says nothing")
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


@functools.cache
def bombs() -> dict[str, bytes]:
    """
    Return zstd frames of some kilobytes whose content is larger than anything that a log stores.
    """
    size = EXPANDED_MAX + 1
    packer = zstandard.ZstdCompressor(level=1)
    piece = bytes(1 << 20)

    def frame(**options: int) -> bytes:
        stream = packer.compressobj(**options)
        whole = b"".join(stream.compress(piece[: size - start]) for start in range(0, size, len(piece)))
        return whole + stream.flush()

    honest = frame(size=size)
    place = honest.index(size.to_bytes(4, "little"))
    lying = honest[:place] + (100).to_bytes(4, "little") + honest[place + 4 :]
    return dict(zip(BOMBS, (honest, lying, frame()), strict=True))


def require_little_memory(log: LiveLog, naming: str, *, ways: Sequence[str] = ()) -> None:
    """
    Require that reading names what is damaged, and that neither this nor looking all over takes 32 MiB at its height.
    """
    tracemalloc.start()
    require_damage(log, naming, ways=ways)
    report = Store(log, MemoryProjectionStore()).verify()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 32 << 20
    assert any(re.search(naming, problem.where) for problem in report.problems)
