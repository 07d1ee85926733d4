"""
Compression with zstd, with a dictionary if the store has one.

Stored bytes begin with a mark: 0 for uncompressed, 1 for zstd, 2 for zstd with a dictionary, whose number follows in
two bytes; 16 is added where the payload holds references to large texts, 32 where it is what an erasure left of the
event. Short events alone compress badly; a dictionary trained on the store's own first events brings them to about a
third. Dictionaries are numbered and kept for ever (docs/adr/0004).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import zstandard

from ...domain.errors import DamagedError
from ...domain.log.envelope import PAYLOAD_BYTES_MAX

PLAIN, ZSTD, ZSTD_DICTIONARY = 0, 1, 2
REFERENCES = 0x10
ERASED = 0x20
FLAGS = REFERENCES | ERASED
PLAIN_MARK = bytes([PLAIN])
WITH_DICTIONARY = (bytes([ZSTD_DICTIONARY]), bytes([ZSTD_DICTIONARY | REFERENCES]))
# Shorter payloads get hardly smaller.
SMALLEST = 96
# How payloads of encrypted events begin (see `trust/sealed_log.py`): to compress them makes nothing smaller.
ENCRYPTED = b"\x83\xa1t\xa9sealed.v1"
# The name of the next field, the id of a key; its length is in these bits of the byte that follows.
KEY_FIELD, SIZE_BITS = b"\xa1k", 0x1F
SMALLEST_WITHOUT_DICTIONARY = 256
LEVEL = 1
BLOCK_LEVEL = 3
# The largest event or text, plus room for the envelope of a block that holds it.
EXPANDED_MAX = PAYLOAD_BYTES_MAX + (1 << 20)
DICTIONARY_BYTES = 16_384
DICTIONARY_EVENTS = 1_024
# For fewer frames, threads cost more than they save.
FRAMES_WORTH_THREADS = 256
THREADS = min(4, os.cpu_count() or 1)


class _Coder:
    """A compressor and a decompressor of zstd. They are not thread safe, so every thread has its own."""

    def __init__(self, dictionary: bytes | None) -> None:
        data = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        if data is not None:
            data.precompute_compress(level=LEVEL)
        self.shrink = zstandard.ZstdCompressor(level=LEVEL, dict_data=data, write_dict_id=False).compress
        self.shrink_block = zstandard.ZstdCompressor(level=BLOCK_LEVEL).compress
        decompressor = zstandard.ZstdDecompressor(dict_data=data)
        self.expand = decompressor.decompress
        self.expand_many = decompressor.multi_decompress_to_buffer


def key_in(stored: bytes) -> bytes:
    """Return the id of the key of an event in its stored form; empty if the event is not encrypted."""
    if not stored.startswith(ENCRYPTED, 1):
        return b""
    start = 1 + len(ENCRYPTED) + len(KEY_FIELD)
    return stored[start + 1 : start + 1 + (stored[start] & SIZE_BITS)]


class Plain:
    """Compresses nothing: for rows that are packed into blocks soon."""

    def shrink(self, data: bytes) -> bytes:
        """Return `data` in its stored form, uncompressed."""
        return b"\x00" + data


class Compression:
    """Compresses with the newest dictionary, expands with any of them; `load` fetches an unknown dictionary."""

    def __init__(self, load: Callable[[int], bytes]) -> None:
        self._load = load
        self._dictionaries: dict[int, bytes] = {}
        self._newest = 0
        self._local = threading.local()

    @property
    def newest(self) -> int:
        """The number of the dictionary in use; 0 for none."""
        return self._newest

    def use(self, number: int, dictionary: bytes) -> None:
        """Compress with this dictionary from now on, if it is newer than the one in use."""
        self._dictionaries[number] = dictionary
        self._newest = max(self._newest, number)

    def drop(self) -> None:
        """Forget all dictionaries: they belong to a database that was replaced by an older copy."""
        self._newest = 0
        self._dictionaries = {}
        self._local = threading.local()

    def shrink(self, data: bytes) -> bytes:
        """Return `data` in its stored form, compressed if that makes it smaller."""
        number = self._newest
        size = len(data)
        if size < (SMALLEST if number else SMALLEST_WITHOUT_DICTIONARY):
            return b"\x00" + data
        packed = self._coder(number).shrink(data)
        if len(packed) + 3 >= size:
            return b"\x00" + data
        if number:
            return b"\x02" + number.to_bytes(2, "big") + packed
        return b"\x01" + packed

    def shrink_block(self, data: bytes) -> bytes:
        """Return a large piece compressed without a dictionary, which would not make it smaller."""
        packed: bytes = self._coder(0).shrink_block(data)
        return b"\x01" + packed

    def expand(self, stored: bytes, what: str) -> bytes:
        """
        Return the data that `shrink` got; `what` names the bytes in the error.

        Raises:
            DamagedError: they cannot be expanded, or their dictionary is missing or damaged.
        """
        mark = stored[0] & ~FLAGS if stored else -1
        if mark == PLAIN:
            return stored[1:]
        try:
            if mark == ZSTD_DICTIONARY:
                return self._coder(stored[1] << 8 | stored[2]).expand(_believable(stored[3:]))
            if mark == ZSTD:
                return self._coder(0).expand(_believable(stored[1:]))
        except (zstandard.ZstdError, IndexError) as error:
            raise DamagedError(what, f"it cannot be decompressed ({error})") from error
        raise DamagedError(what, f"it begins with {mark}, which is no mark of a stored form")

    def expand_many(self, stored: Sequence[bytes], name: Callable[[int], str]) -> list[bytes]:
        """
        Return the result of `expand` for each of `stored`, in less time; `name` returns the name of the n-th for an
        error.
        """
        expanded = [data[1:] if data[:1] == PLAIN_MARK else b"" for data in stored]
        packed: dict[bytes, list[int]] = {}
        for place in [place for place, one in enumerate(expanded) if not one]:
            data = stored[place]
            packed.setdefault(data[:3] if data[:1] in WITH_DICTIONARY else data[:1], []).append(place)
        for prefix, places in packed.items():
            frames = [stored[place][len(prefix) :] for place in places]
            try:
                whole = self._expand_frames(prefix, frames)
            except (zstandard.ZstdError, ValueError, MemoryError):
                # At least one of them is damaged. Expanding one by one names it in the error.
                whole = [self.expand(stored[place], name(place)) for place in places]
            for place, one in zip(places, whole, strict=True):
                expanded[place] = one
        return expanded

    def _expand_frames(self, prefix: bytes, frames: Sequence[bytes]) -> Sequence[bytes]:
        mark = prefix[0] & ~FLAGS if prefix else -1
        if mark == PLAIN:
            return frames
        if mark not in (ZSTD, ZSTD_DICTIONARY):
            raise zstandard.ZstdError("no mark of a stored form")
        for frame in frames:
            _believable(frame)
        coder = self._coder(int.from_bytes(prefix[1:], "big"))
        threads = THREADS if len(frames) >= FRAMES_WORTH_THREADS else 0
        whole = coder.expand_many(list(frames), threads=threads)
        return [whole[place].tobytes() for place in range(len(whole))]

    def _coder(self, number: int) -> _Coder:
        coders: dict[int, _Coder] | None = getattr(self._local, "coders", None)
        if coders is None:
            coders = self._local.coders = {}
        coder = coders.get(number)
        if coder is None:
            if number and number not in self._dictionaries:
                self._dictionaries[number] = self._load(number)
            coder = coders[number] = _Coder(self._dictionaries.get(number))
        return coder


def _believable(frame: bytes) -> bytes:
    """Return a frame after checking its declared size: it expands to no more, but a forged frame may declare any."""
    size = zstandard.frame_content_size(frame)
    if not 0 <= size <= EXPANDED_MAX:
        says = f"{size:,} bytes" if size >= 0 else "no size"
        raise zstandard.ZstdError(
            f"its content is said to have {says}, and the most that is stored is {EXPANDED_MAX:,}"
        )
    return frame


def expanded_size(stored: bytes) -> int:
    """Return the size of stored bytes when they are expanded; for damaged ones, their stored size."""
    mark = stored[0] & ~FLAGS if stored else PLAIN
    try:
        if mark == PLAIN:
            return len(stored)
        return int(zstandard.frame_content_size(stored[3 if mark == ZSTD_DICTIONARY else 1 :]))
    except zstandard.ZstdError:
        return len(stored)


def no_dictionary(
    reason: str = "there are none here", error: type[DamagedError] = DamagedError, **about: str
) -> Callable[[int], bytes]:
    """Return a `load` for a place without dictionaries: it raises an error with this reason."""

    def load(number: int) -> bytes:
        raise error(f"dictionary {number}", reason, **about)

    return load


def mark_references(stored: bytes) -> bytes:
    """Return stored bytes marked as holding references to large texts."""
    return bytes([stored[0] | REFERENCES]) + stored[1:]


def has_references(stored: bytes) -> bool:
    """Return whether stored bytes are marked as holding references to large texts."""
    return bool(stored) and bool(stored[0] & REFERENCES)


def erased_form(payload: bytes) -> bytes:
    """Return the stored form of what an erasure left of an event: not compressed, so that it needs no dictionary."""
    return bytes([PLAIN | ERASED]) + payload


def train_dictionary(samples: Sequence[bytes]) -> bytes | None:
    """Return a dictionary for payloads like `samples`; None if they have too little in common."""
    try:
        trained: bytes = zstandard.train_dictionary(DICTIONARY_BYTES, list(samples), level=LEVEL).as_bytes()
    except zstandard.ZstdError:
        return None
    return trained
