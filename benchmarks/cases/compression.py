"""
Which kind of compression is worth its time? Single rows or blocks of 64, each with and without a dictionary.

The dictionary is trained on other text than it is measured on: another seed (other words, other tools), or the
other half of the real runs (the same tasks, tools and system prompt).
Ratios are of event payloads to stored bytes, without keys and digests.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TypeVar

import msgspec
import zstandard

from refold.domain.chat.events import ChatEvent

from ..bench import Bench
from ..real_runs import real_runs
from ..recorded import payload_of
from ..rows import Table
from ..workload import SEED, Item, items, text_bytes

LEVEL = 3
BLOCK = 64
DICTIONARY_BYTES = 16_384
REPEATS = 3
HEADERS = ("text", "stored as", "payload / stored", "stored / text", "write µs an event", "read µs an event")
Pack = Callable[[bytes], bytes]
T = TypeVar("T")


def compression(bench: Bench, database: str) -> Iterator[Table]:
    """Study both corpora; the same for every database."""
    count = bench.scale.single_appends
    note = f"zstd level {LEVEL}, dictionary of {DICTIONARY_BYTES:,} bytes; reading includes decoding."
    table = Table("Compression", HEADERS, note=note)
    _study(table, "generated", items(count), items(count, seed=SEED + 1))
    measured, others = ([item for run in real_runs(measured=part) for item in run] for part in (True, False))
    if measured:
        _study(table, "real runs", measured[:count], others[:count])
    yield table


def _study(table: Table, corpus: str, measured: Sequence[Item], others: Sequence[Item]) -> None:
    payloads = [payload_of(item) for item in measured]
    dictionary = _trained([payload_of(item) for item in others])
    plain_pack, plain_unpack = _coder(None)
    known_pack, known_unpack = _coder(dictionary)
    ways: list[tuple[str, int, Pack, Pack]] = [
        ("rows, as they are", 1, bytes, bytes),
        ("rows", 1, plain_pack, plain_unpack),
        ("rows, dictionary", 1, known_pack, known_unpack),
        (f"blocks of {BLOCK}", BLOCK, plain_pack, plain_unpack),
        (f"blocks of {BLOCK}, dictionary", BLOCK, known_pack, known_unpack),
    ]
    text = text_bytes(measured)
    for name, together, pack, unpack in ways:
        write, stored = _timed(lambda: _write(payloads, together, pack))  # noqa: B023 - run at once
        read, _ = _timed(lambda: _read(stored, together, unpack))  # noqa: B023
        used = sum(map(len, stored))
        ratios = [f"{sum(map(len, payloads)) / used:.2f}", f"{used / text:.2f}"]
        per_event = [f"{1e6 * seconds / len(payloads):.1f}" for seconds in (write, read)]
        table.lines.append([corpus, name, *ratios, *per_event])


def _trained(samples: list[bytes]) -> zstandard.ZstdCompressionDict:
    dictionary = zstandard.train_dictionary(DICTIONARY_BYTES, list(samples), level=LEVEL)
    dictionary.precompute_compress(level=LEVEL)
    return dictionary


def _coder(dictionary: zstandard.ZstdCompressionDict | None) -> tuple[Pack, Pack]:
    shrink = zstandard.ZstdCompressor(level=LEVEL, dict_data=dictionary, write_dict_id=False)
    return shrink.compress, zstandard.ZstdDecompressor(dict_data=dictionary).decompress


def _write(payloads: list[bytes], together: int, pack: Pack) -> list[bytes]:
    if together == 1:
        return [pack(payload) for payload in payloads]
    encode = msgspec.msgpack.Encoder().encode
    blocks = (payloads[start : start + together] for start in range(0, len(payloads), together))
    return [pack(encode([msgspec.Raw(payload) for payload in block])) for block in blocks]


def _read(stored: list[bytes], together: int, unpack: Pack) -> int:
    if together == 1:
        one = msgspec.msgpack.Decoder(ChatEvent).decode
        return sum(one(unpack(row)) is not None for row in stored)
    many = msgspec.msgpack.Decoder(list[ChatEvent]).decode
    return sum(len(many(unpack(row))) for row in stored)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    times: list[float] = []
    for _ in range(REPEATS):
        start = perf_counter()
        result = work()
        times.append(perf_counter() - start)
    return statistics.median(times), result
