"""
How an event names items: by the stream and version of the event that created each of them.

The empty stream name means the stream of the naming event itself, so that a context can be adopted under another id.
Versions are stored as runs, a byte or two for each, so that an event that names 50,000 items stays small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from .errors import DamagedError, InvalidInputError
from .ids import VERSION_MAX
from .log.admission import StreamName, VersionNumber

OWN = ""
NUMBER_BITS_MAX = 56


class Ref(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One item: the event with `version` in `stream` created it."""

    version: VersionNumber
    stream: StreamName = OWN

    def __str__(self) -> str:
        return f"{self.stream}@{self.version}"

    def within(self, stream: str) -> Ref:
        """Return the name with its stream, which is `stream` if it has none."""
        return self if self.stream else Ref(self.version, stream)

    @classmethod
    def parse(cls, text: str) -> Ref:
        """
        Return the name that a text `stream@version` stands for; keys of rows have this form, too.

        Raises:
            ValueError: the text does not have this form.
        """
        stream, at, version = text.rpartition("@")
        if not at or not version.isdecimal() or not version.isascii():
            raise ValueError(f"{text!r} names no event: it is a stream and a version, like chat:support@3")
        return cls(int(version), stream)


class Segment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream up to and including a version."""

    stream: StreamName
    version: VersionNumber


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    Items of one stream, ascending.

    `runs` is a sequence of numbers in LEB128: for each run of consecutive versions, the gap before it and its length.
    """

    stream: StreamName
    runs: bytes

    @classmethod
    def of(cls, stream: str, versions: Iterable[int]) -> Span:
        """Return the span of these versions: at least one, in ascending order."""
        (span,) = spans_of(Ref(version, stream) for version in versions)
        return span

    @classmethod
    def of_ranges(cls, stream: str, ranges: Iterable[range]) -> Span:
        """Return the span of these ranges of versions, which must ascend and must not be adjacent."""
        numbers: list[int] = []
        end = 0
        for run in ranges:
            numbers += (run.start - end, len(run))
            end = run.stop
        return cls(stream, _packed(numbers))

    def ranges(self) -> list[range]:
        """Return the runs of versions."""
        numbers = _unpacked(self)
        if len(numbers) % 2:
            raise _damaged(self, "a gap has no run behind it")
        ranges, end = [], 0
        for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
            start = end + gap
            end = start + length
            ranges.append(range(start, end))
        return ranges

    def require_admissible(self) -> None:
        """Raise InvalidInputError if it names impossible versions."""
        end = 0
        for run in self.ranges():
            if run.start < max(end, 1) or not run:
                raise InvalidInputError("it names version 0, or a run of versions that is empty")
            end = run.stop
        if end > VERSION_MAX + 1:
            raise InvalidInputError(f"it names version {end - 1:,}, and versions go up to {VERSION_MAX:,}")

    def versions(self) -> Iterator[int]:
        """Yield the versions, ascending."""
        for run in self.ranges():
            yield from run


def span_of(ref: Ref) -> Span:
    """Return the span that names one item."""
    return Span(ref.stream, _packed((ref.version, 1)))


def spans_of(refs: Iterable[Ref]) -> tuple[Span, ...]:
    """Return spans of these items in order; a new one begins when the stream changes or a version decreases."""
    return joined_spans((ref.stream, range(ref.version, ref.version + 1)) for ref in refs)


def joined_spans(runs: Iterable[tuple[str, range]]) -> tuple[Span, ...]:
    """
    Return spans that name runs of versions in this order.

    A new span begins when the stream changes or a version decreases.
    """
    spans: list[Span] = []
    ranges: list[range] = []
    current = OWN
    for stream, run in runs:
        if ranges and (stream != current or run.start < ranges[-1].stop):
            spans.append(Span.of_ranges(current, ranges))
            ranges = []
        current = stream
        if ranges and run.start == ranges[-1].stop:
            ranges[-1] = range(ranges[-1].start, run.stop)
        else:
            ranges.append(run)
    return (*spans, Span.of_ranges(current, ranges)) if ranges else tuple(spans)


def refs_of(spans: Iterable[Span]) -> Iterator[Ref]:
    """Yield the items that spans name, in their order."""
    for span in spans:
        for version in span.versions():
            yield Ref(version, span.stream)


def _packed(numbers: Iterable[int]) -> bytes:
    # Seven bits a byte, the lowest first; the eighth bit means that another byte follows.
    packed = bytearray()
    for number in numbers:
        while number > 127:
            packed.append(number & 127 | 128)
            number >>= 7
        packed.append(number)
    return bytes(packed)


def _unpacked(span: Span) -> list[int]:
    numbers: list[int] = []
    number = shift = 0
    for byte in span.runs:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
        elif shift > NUMBER_BITS_MAX:
            raise _damaged(span, "a number in it is too long")
    if shift:
        raise _damaged(span, "it ends within a number")
    return numbers


def _damaged(span: Span, reason: str) -> DamagedError:
    return DamagedError(f"a list of items of {span.stream or 'its own stream'}", reason)
