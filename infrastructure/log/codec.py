"""
Encodes events to bytes; decodes bytes to events, with upcasting where needed.

An event is decoded by its tag into one closed union. A tag that the union does not know is an old shape (or one from a
newer Refold): upcasters, pure `dict -> dict` steps, bring it to the newest shape first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ...domain.chat.events import ChatEvent
from ...domain.concurrency.known_types import known
from ...domain.erasure.events import ErasureEvent
from ...domain.errors import DamagedError
from ...domain.kinds import every_event
from ...domain.log.envelope import NO_META, Event, Meta, Undecodable, require_meta_size
from ...domain.moments import StoreEvent

TAG_FIELD = "t"
# Ends the loop if upcasters form a cycle.
UPCASTS_MAX = 100
# The first byte of a msgpack array of five items.
FIVE_FIELDS = b"\x95"
_META_ENCODER = msgspec.msgpack.Encoder()
_META_DECODER = msgspec.msgpack.Decoder(known(Meta))
_PLAIN_DECODER = msgspec.msgpack.Decoder()


class Upcaster(NamedTuple):
    """One upcasting step: turns the fields of the old tag into those of `new_tag`."""

    new_tag: str
    upcast: Callable[[dict[str, Any]], dict[str, Any]]


Mend = Callable[[dict[str, Any]], dict[str, Any]]


class Codec:
    """
    Decodes payloads into a union of event types; `upcasters` maps an old tag to its step.

    `mended` holds functions that repair a single event, by its `stream@version`. Each takes the payload, tag included,
    and returns another one. `others` returns further types: it is called for the first event that is none of `events`,
    so that programs with chats alone do not import the events of all contexts.
    """

    def __init__(
        self,
        events: Any,
        upcasters: Mapping[str, Upcaster] | None = None,
        mended: Mapping[str, Mend] | None = None,
        others: Callable[[], Any] | None = None,
    ) -> None:
        self._events = events
        self._upcasters = dict(upcasters or {})
        self._mended = dict(mended or {})
        self._others = others
        self._decoder = msgspec.msgpack.Decoder(known(events))

    @property
    def events(self) -> Any:
        """The union of all event types."""
        self._take_others()
        return self._events

    def _take_others(self) -> bool:
        """Decode the other types from now on, too; return whether this is new."""
        others = self._others
        if others is None:
            return False
        # In this order: another thread that comes in between adds the same types, which does not change the union.
        self._events |= others()
        self._decoder = msgspec.msgpack.Decoder(known(self._events))
        self._others = None
        return True

    def mends(self, stream: str, first_version: int, count: int) -> bool:
        """Return whether at least one of `count` events of a stream is mended when it is read."""
        return bool(self._mended) and any(f"{stream}@{first_version + place}" in self._mended for place in range(count))

    def marking(self) -> Codec:
        """Return a codec that returns an `Undecodable` for a payload it cannot decode."""
        return _MarkingCodec(self._events, self._upcasters, self._mended, self._others)

    def decode(self, payload: bytes, what: str) -> Event:
        """
        Return the event of a payload; `what` names it in the error.

        Raises:
            DamagedError: the bytes are not an event, or have an unknown shape.
        """
        try:
            if self._mended and _reference(what) in self._mended:
                return self._decode_old(payload, what)
            event: Event = self._decoder.decode(payload)
        except msgspec.ValidationError:
            return self.decode(payload, what) if self._take_others() else self._decode_old(payload, what)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise DamagedError(what, str(error)) from error
        return event

    def decode_many(self, payloads: Sequence[bytes], name: Callable[[int], str]) -> list[Event]:
        """
        Return the result of `decode` for each of `payloads`, in less time; `name` returns the name of the n-th for an
        error.
        """
        if not self._mended:
            with suppress(msgspec.DecodeError, ValueError, RecursionError):
                return list(map(self._decoder.decode, payloads))
        # At least one has an old shape or is damaged. Decoding one by one upcasts it or names it in the error.
        return [self.decode(payload, name(place)) for place, payload in enumerate(payloads)]

    def decode_plain(self, plain: dict[str, Any], what: str) -> Event:
        """Return the event whose payload, tag included, is `plain`; an old tag is upcast first."""
        fields = self.upcast(plain)
        try:
            event: Event = msgspec.convert(fields, known(self.events))
        except msgspec.ValidationError as error:
            tag = str(fields.get(TAG_FIELD))
            raise DamagedError(what, f"its tag is {tag!r}: {error} (written by a newer Refold?)") from error
        return event

    def upcast(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Return a payload, tag included, in its newest shape."""
        fields, tag = dict(plain), str(plain.get(TAG_FIELD))
        for _ in range(UPCASTS_MAX):
            step = self._upcasters.get(tag)
            if step is None:
                break
            fields, tag = step.upcast({k: v for k, v in fields.items() if k != TAG_FIELD}), step.new_tag
            fields[TAG_FIELD] = tag
        return fields

    def _decode_old(self, payload: bytes, what: str) -> Event:
        try:
            plain = _PLAIN_DECODER.decode(payload)
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
            # A TypeError: msgspec before 0.22 raises it for a map whose key is a map.
            raise DamagedError(what, str(error)) from error
        if not isinstance(plain, dict):
            raise DamagedError(what, "its payload is not a map")
        mend = self._mended.get(_reference(what))
        return self.decode_plain(plain if mend is None else mend(plain), what)


class _MarkingCodec(Codec):
    """A codec for readers of the whole log, which a single damaged event must not stop."""

    def decode(self, payload: bytes, what: str) -> Event:
        """Return the event of a payload, or an `Undecodable` with the reason."""
        for is_last in (False, True):
            try:
                return super().decode(payload, what)
            except DamagedError as error:
                return Undecodable(error.reason)
            except Exception as error:
                # Either an upcaster fails on this event, or a signal handler raised the error. The second attempt tells
                # them apart: a signal handler does not raise again.
                if is_last:
                    return Undecodable(f"it cannot be upcast: {error!r}")
        raise AssertionError("the loop returns")


def _reference(what: str) -> str:
    return what.removeprefix("event ")


def tag_of(event: Event) -> str:
    """Return the stored type of an event."""
    return str(event.__struct_config__.tag)


def encode_meta(meta: Meta) -> bytes | None:
    """
    Return the stored form of a meta; None if it is empty.

    Raises:
        LimitExceededError: it has more than META_BYTES_MAX bytes.
    """
    if meta is NO_META or meta == NO_META:
        return None
    stored = require_meta_size(_META_ENCODER.encode(meta))
    # Without a fingerprint, the stored form is the array of five fields that older versions wrote: the first byte holds
    # the number of fields, and the last byte, the nil of the fingerprint, is left out.
    return stored if meta.fingerprint is not None else FIVE_FIELDS + stored[1:-1]


def decode_meta(stored: bytes | None, what: str = "an event") -> Meta:
    """
    Return the meta of its stored form; `what` names the event in the error.

    Raises:
        DamagedError: the bytes are not a meta.
    """
    if stored is None:
        return NO_META
    try:
        return _META_DECODER.decode(stored)
    except (msgspec.DecodeError, ValueError) as error:
        raise DamagedError(what, f"its envelope cannot be read ({error})") from error


CODEC = Codec(ChatEvent | StoreEvent | ErasureEvent, others=every_event)
