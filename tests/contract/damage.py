"""What must come of damage: an error that names it, in every way of reading, and never other events."""

import functools
import hashlib
import re
import sqlite3
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import msgspec
import pytest
import zstandard

from refold.domain.errors import DamagedError
from refold.domain.log.ports import LiveLog, Range
from refold.infrastructure.log.compression import EXPANDED_MAX
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from .writing import everything

A, B = "chat:a", "chat:b"
FLIPS = (0x01, 0x10, 0x80, 0xFF)
BOMBS = ("says how large it is", "says less", "says nothing")
LARGE = "a large text, stored once. " * 300


def ways_to_read(log: LiveLog, stream: str = A) -> dict[str, Callable[[], Sequence[Any]]]:
    """Return every way in which the events of a stream can be read."""
    return {
        "read": lambda: [recorded.event for recorded in log.read(stream)],
        "read_events": lambda: log.read_events(stream),
        "read_ranges": lambda: one_by_one(log, stream),
        "read_all": lambda: [one.event for one in everything(log) if one.stream == stream],
    }


def one_by_one(log: LiveLog, stream: str) -> list[Any]:
    """Read each event of a stream as a range of its own."""
    ranges = [Range(stream, version, version + 1) for version in range(log.head(stream))]
    return [event for events in log.read_ranges(ranges) for event in events]


def require_damage(log: LiveLog, naming: str, *, stream: str = A, ways: Sequence[str] = ()) -> None:
    """Require that reading raises an error that names what is damaged, in every way of reading or in those given."""
    for name, read in ways_to_read(log, stream).items():
        if ways and name not in ways:
            continue
        with pytest.raises(DamagedError, match=naming):
            pytest.fail(f"{name} gave {len(read())} events")


def require_damage_or_the_same(log: LiveLog, wanted: Sequence[Any]) -> int:
    """Require that every way of reading raises DamagedError or gives what was written; count those that raise."""
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
    """Return what becomes of a value when each byte (or each `step`th) is flipped in several ways."""
    return [
        value[:place] + bytes([value[place] ^ flip]) + value[place + 1 :]
        for place in range(0, len(value), step)
        for flip in FLIPS
    ]


@functools.cache
def bombs() -> dict[str, bytes]:
    """Return zstd frames of some kilobytes whose content is larger than anything that a log stores."""
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


Columns = list[list[Any]]


def forge_blocks(place: str, change: Callable[[list[Columns], list[list[bytes]]], None], *keys: int) -> None:
    """
    Change some sealed blocks and compute their checksums anew, as anybody can who may write to the file.

    `change` gets what lies in each block, column by column (parts, positions, times, metas, payloads), and its digests.
    """
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        found = [
            connection.execute("SELECT segment, digests, body FROM block WHERE key = ?", (key,)).fetchone()
            for key in keys
        ]
        # Payloads stay the bytes that they are.
        shape = tuple[list[Any], list[int], list[int], list[Any], list[msgspec.Raw]]
        bodies: list[Columns] = [
            list(msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(body[1:]), type=shape))
            for _, _, body in found
        ]
        digests = [[all_of[n : n + 32] for n in range(0, len(all_of), 32)] for _, all_of, _ in found]
        change(bodies, digests)
        for key, (segment, _, before), body, parts in zip(keys, found, bodies, digests, strict=True):
            data = before[:1] + zstandard.ZstdCompressor().compress(msgspec.msgpack.encode(body))
            checksum = hashlib.blake2b(segment.to_bytes(8, "big") + b"".join(parts) + data, digest_size=32).digest()
            statement = "UPDATE block SET checksum = ?, digests = ?, body = ? WHERE key = ?"
            connection.execute(statement, (checksum, b"".join(parts), data, key))


def _swap(columns: Columns, other: Columns, place: int, other_place: int, *which: int) -> None:
    for one in which:
        columns[one][place], other[one][other_place] = other[one][other_place], columns[one][place]


def _said_otherwise(payload: msgspec.Raw) -> msgspec.Raw:
    return msgspec.Raw(bytes(payload).replace(b"text", b"test"))


def _exchange_with_digests(bodies: list[Columns], digests: list[list[bytes]]) -> None:
    _swap(bodies[0], bodies[1], 5, 5, 2, 3, 4)
    digests[0][5], digests[1][5] = digests[1][5], digests[0][5]


# Of blocks 1 and 2, each of 64 events of one stream; the second begins with its version 65.
FORGERIES: dict[str, Callable[[list[Columns], list[list[bytes]]], None]] = {
    "payload": lambda bodies, _: bodies[1][4].__setitem__(5, _said_otherwise(bodies[1][4][5])),
    "meta": lambda bodies, _: bodies[1][3].__setitem__(5, ["mallory"]),
    "time": lambda bodies, _: bodies[1][2].__setitem__(5, bodies[1][2][5] + 1),
    "position": lambda bodies, _: _swap(bodies[1], bodies[1], 5, 6, 1),
    "swapped pair": lambda bodies, _: _swap(bodies[1], bodies[1], 5, 6, 1, 2, 3, 4),
    "exchanged between blocks": lambda bodies, _: _swap(bodies[0], bodies[1], 5, 5, 2, 3, 4),
    "first of a block": lambda bodies, _: bodies[1][4].__setitem__(0, _said_otherwise(bodies[1][4][0])),
    "digest": lambda _, digests: digests[1].__setitem__(5, bytes(32)),
    "exchanged with its digest": _exchange_with_digests,
}
