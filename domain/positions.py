"""
Places in the whole log.

A `Position` is the place of one event; a `Moment` is a cut through the whole log that includes all events up to it. On
a log with one sequence (memory, SQLite) both are written as one decimal number. On a log with slices (PostgreSQL) a
position is `slice.number` and a moment is a vector. Other modules do not calculate with them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from .errors import InvalidInputError

# The slice of a log that is one sequence.
ONE_SEQUENCE = -1


class Position(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The place of one event: `number` within its slice; `slice` is -1 on a log with one sequence."""

    slice: int
    number: int

    def __str__(self) -> str:
        return str(self.number) if self.slice < 0 else f"{self.slice}.{self.number}"


class Moment(msgspec.Struct, frozen=True):
    """A cut through the log: for each slice, the number of the last included event."""

    heads: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        if not self.heads:
            return "0"
        if len(self.heads) == 1:
            return str(Position(*self.heads[0]))
        packed = msgspec.msgpack.encode(self.heads)
        return "v" + base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def of(cls, heads: dict[int, int]) -> Moment:
        """Return the moment with these heads (slice to number)."""
        return cls(tuple(sorted(heads.items())))

    @classmethod
    def parse(cls, text: str) -> Moment:
        """
        Return the moment that `str(moment)` or `str(position)` wrote.

        Raises:
            InvalidInputError: the text is neither.
        """
        try:
            heads = _parse_heads(text)
            if any(lane < -1 or number < 0 for lane, number in heads):
                raise ValueError(text)
            return cls(heads)
        except (ValueError, binascii.Error, msgspec.DecodeError) as error:
            raise InvalidInputError(
                f"{text!r} is not a position: take one as `refold log` prints it, like 17 or 3.17"
            ) from error

    def head(self, slice_number: int) -> int:
        """Return the number of the last included event of this slice, or 0."""
        return dict(self.heads).get(slice_number, 0)

    @property
    def events(self) -> int:
        """The number of included events; positions have no gaps."""
        return sum(number for _, number in self.heads)

    def includes(self, other: Moment) -> bool:
        """Return whether this moment includes all events up to `other`."""
        heads = dict(self.heads)
        return all(heads.get(lane, 0) >= number for lane, number in other.heads)


BEGINNING = Moment()


def moment_of(number: int, lane: int = ONE_SEQUENCE) -> Moment:
    """Return the moment that includes the events of one slice up to this number, and none of any other slice."""
    return Moment(((lane, number),)) if number else BEGINNING


def require_kind(moment: Moment, *, has_slices: bool) -> Moment:
    """
    Return a moment, if it is one of a log with slices (`has_slices`), or of a log without.

    Raises:
        InvalidInputError: it is one of the other kind of log. It would be taken for the beginning of this log.
    """
    if any((lane >= 0) != has_slices for lane, _ in moment.heads):
        form = "slice.number, like 3.17" if has_slices else "numbers, like 17"
        raise InvalidInputError(f"{moment} is no position of this store, whose positions are {form}")
    return moment


def cut_to(moment: Moment, ends: Mapping[int, int]) -> Moment:
    """Return a moment without the positions that a log does not have, given the last position of each slice."""
    return Moment.of({lane: min(number, ends.get(lane, 0)) for lane, number in moment.heads})


class Partition(NamedTuple):
    """
    One of `of` partitions of a log: the streams whose slice modulo `of` is `number`.

    Streams that share a root share a slice, and so a partition: contexts of a session, and forks with their parents.
    """

    number: int
    of: int

    def share(self, moment: Moment) -> Moment:
        """Return the part of a moment that belongs to this partition; on a log with one sequence, the whole moment."""
        heads = [(lane, head) for lane, head in moment.heads if lane < 0 or lane % self.of == self.number]
        return Moment(tuple(heads))


def _parse_heads(text: str) -> tuple[tuple[int, int], ...]:
    if text.startswith("v"):
        packed = base64.urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4))
        return msgspec.msgpack.decode(packed, type=tuple[tuple[int, int], ...])
    lane, dot, number = text.rpartition(".")
    if not number.isascii() or not number.isdigit() or (dot and not lane.isdigit()):
        raise ValueError(text)
    if not dot and number == "0":
        return ()
    return ((int(lane) if dot else -1, int(number)),)
