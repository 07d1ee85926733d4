"""
Named moments of a whole store, and the copies that it comes from.

They are events of their own stream, so their actors and times are recorded too.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from .context.context import Attachment
from .context.decider import Decider
from .context.description import Change, counted
from .context.folded_stream import Place
from .context.journal import Journal
from .context.transaction import require_no_transaction
from .errors import InvalidInputError
from .ids import require_name
from .log.admission import VersionName
from .positions import Moment

STREAM = "store:moments"


class MomentNamed(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="t", tag="store.moment_named.v1"):
    """A moment of the log got a name; the same name given again moves it. `moment` is the moment as text."""

    name: VersionName
    moment: str

    def require_admissible(self) -> None:
        """Raise InvalidInputError if `moment` is not the text of a moment."""
        Moment.parse(self.moment)


class StoreCopied(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="t", tag="store.copied.v1"):
    """
    The events before this one were copied from another store, `source`, up to its moment `moment`.

    Digests cover positions, so the digests here differ from those of the source, of which `root` is a hash. If the
    source had one sequence and this log has slices, `order` has the slice of each of its events in their order, from
    the position `first` on: 16 bits each, big-endian, compressed by zlib.
    """

    source: str
    moment: str
    events: int
    root: bytes
    first: int = 1
    order: bytes = b""

    def require_admissible(self) -> None:
        """Raise InvalidInputError if `moment` is not the text of a moment, or `order` cannot be read."""
        Moment.parse(self.moment)
        slices_in(self.order)


def describe_copy(event: StoreCopied) -> Change:
    """Return what a copy says, without its hash and the order of its events."""
    return Change(lambda _: f"{counted(event.events, 'event')} of {event.source}, up to {event.moment}")


StoreEvent = MomentNamed | StoreCopied
# The number of events whose order is stored in one event.
ORDER_EVENTS_MAX = 1 << 20


def order_of(slices: array[int]) -> bytes:
    """Return the slices of events in the form of `StoreCopied.order`."""
    swapped = array("H", slices)
    if sys.byteorder == "little":
        swapped.byteswap()
    return zlib.compress(swapped.tobytes())


def slices_in(order: bytes) -> array[int]:
    """
    Return the slices that `order_of` wrote.

    Raises:
        InvalidInputError: the bytes are not such an order.
    """
    slices = array("H")
    try:
        # The limit keeps a forged order from filling the memory.
        slices.frombytes(zlib.decompressobj().decompress(order, 2 * ORDER_EVENTS_MAX) if order else b"")
    except (zlib.error, ValueError) as error:
        raise InvalidInputError(f"the order of copied events cannot be read: {error}") from error
    if sys.byteorder == "little":
        slices.byteswap()
    return slices


def _moment_in(copies: Iterable[StoreCopied], number: int) -> Moment | None:
    counts: Counter[int] = Counter()
    left = number
    for copied in copies:
        slices = slices_in(copied.order)[:left]
        counts.update(slices)
        left -= len(slices)
    return None if left else Moment.of(dict(counts))


Names = Mapping[str, str]


class NameMoment(msgspec.Struct, frozen=True):
    """Give a moment a name."""

    name: str
    moment: str


def decide(command: NameMoment, state: Names) -> Sequence[MomentNamed]:
    """
    Return the event that gives a moment a name; none if the moment has that name already.

    Raises:
        InvalidInputError: the name is invalid.
    """
    name = require_name(command.name, "moment")
    return [] if state.get(name) == command.moment else [MomentNamed(name=name, moment=command.moment)]


def fold(state: Names, events: Iterable[StoreEvent]) -> Names:
    """Return the names after `events`."""
    return {**state, **{event.name: event.moment for event in events if isinstance(event, MomentNamed)}}


MOMENTS: Decider[Names] = Decider(decide, fold, {}, is_opened=False)


class MomentNames:
    """The named moments of a store, including those that other processes name."""

    def __init__(self, attachment: Attachment) -> None:
        self._log = attachment.log
        version, digest = attachment.log.end(STREAM)
        place = Place(STREAM, STREAM)
        self._journal = Journal(
            attachment.log, place, MOMENTS, version=version, digest=digest, unflushed=attachment.unflushed
        )

    def name(self, name: str, moment: Moment) -> None:
        """
        Give a moment a name; a name that is in use moves to this moment.

        Raises:
            InvalidInputError: the name does not start with a letter, or holds `@`, `:`, `..` or a blank; or a
                transaction is open, whose events have no place in the log yet.
        """
        require_no_transaction(self._log, "no moment is named")
        _ = self._journal.state
        self._journal.execute(NameMoment(name, str(moment)))

    def before_copy(self, number: int) -> Moment | None:
        """Return the moment of a position in the store that this one was copied from; None if that is not known."""
        events = [one for one in self._log.read_events(STREAM) if isinstance(one, StoreCopied) and one.order]
        # If the store was copied several times, the last copy wrote this log.
        start = max((place for place, one in enumerate(events) if one.first == 1), default=0)
        return _moment_in(events[start:], number)

    def moments(self) -> dict[str, Moment]:
        """Return the named moments, including those that other writers have just named."""
        return {name: Moment.parse(text) for name, text in self._texts().items()}

    def moment(self, name: str) -> Moment | None:
        """Return the moment of this name; None if there is none. On a log with slices, the text of each is long."""
        text = self._texts().get(name)
        return None if text is None else Moment.parse(text)

    def _texts(self) -> Names:
        self._journal.refresh()
        return self._journal.state
