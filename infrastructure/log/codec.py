"""
Between events and bytes: encoding, upcasting, decoding.

An event is decoded by its tag into one closed union. A tag that the union does not know is an old shape (or
one from a newer Refold): upcasters, pure `dict -> dict` steps, bring it to the newest shape first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import msgspec

from ...domain.errors import DamagedError
from ...domain.kinds import EVERY_KIND
from ...domain.log.envelope import NO_META, Event, Meta, Undecodable, require_meta_size
from ...domain.moments import StoreEvent

TAG_FIELD = "t"
UPCASTS_MAX = 100
FIVE_FIELDS = b"\x95"
_META_ENCODER = msgspec.msgpack.Encoder()
_META_DECODER = msgspec.msgpack.Decoder(Meta)
_PLAIN_DECODER = msgspec.msgpack.Decoder()


class Upcaster(NamedTuple):
    """One step in the life of a payload: from the old tag's fields to the new tag's."""

    new_tag: str
    upcast: Callable[[dict[str, Any]], dict[str, Any]]


Mend = Callable[[dict[str, Any]], dict[str, Any]]


class Codec:
    """
    Decodes payloads into a union of event types, by way of `upcasters` (old tag to step) where need be.

    `mended` are upcasters for one event each, by its `stream@version`: from its payload, tag included, to another.
    """

    def __init__(
        self, events: Any, upcasters: Mapping[str, Upcaster] | None = None, mended: Mapping[str, Mend] | None = None
    ) -> None:
        self.events = events
        self._upcasters = dict(upcasters or {})
        self._mended = dict(mended or {})
        self._decoder = msgspec.msgpack.Decoder(events)

    def mends(self, stream: str, first_version: int, count: int) -> bool:
        """Return whether one of some events of a stream is mended when it is read."""
        return bool(self._mended) and any(f"{stream}@{first_version + place}" in self._mended for place in range(count))

    def marking(self) -> Codec:
        """Return a codec that gives an `Undecodable` for what it cannot decode."""
        return _MarkingCodec(self.events, self._upcasters, self._mended)

    def decode(self, payload: bytes, what: str) -> Event:
        """
        Return the event that was encoded; `what` names it in the error.

        Raises:
            DamagedError: the bytes are no event, or of a shape that nothing here knows.
        """
        try:
            if self._mended and _reference(what) in self._mended:
                return self._decode_old(payload, what)
            event: Event = self._decoder.decode(payload)
        except msgspec.ValidationError:
            return self._decode_old(payload, what)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise DamagedError(what, str(error)) from error
        return event

    def decode_many(self, payloads: Sequence[bytes], name: Callable[[int], str]) -> list[Event]:
        """
        Return what `decode` returns for each of `payloads`, in less time; `name` says what the n-th is, for an error.
        """
        if not self._mended:
            with suppress(msgspec.DecodeError, ValueError, RecursionError):
                return list(map(self._decoder.decode, payloads))
        # One of them is of an older form, or damaged: decoded one by one, it is upcast or named.
        return [self.decode(payload, name(place)) for place, payload in enumerate(payloads)]

    def decode_plain(self, plain: dict[str, Any], what: str) -> Event:
        """Return the event whose payload, tag included, is `plain`, upcast where its tag is an old one."""
        fields = self.upcast(plain)
        try:
            event: Event = msgspec.convert(fields, self.events)
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
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise DamagedError(what, str(error)) from error
        if not isinstance(plain, dict):
            raise DamagedError(what, "its payload is not a map")
        mend = self._mended.get(_reference(what))
        return self.decode_plain(plain if mend is None else mend(plain), what)


class _MarkingCodec(Codec):
    """A codec for those who read all of a log, and whom one event shall not stop."""

    def decode(self, payload: bytes, what: str) -> Event:
        """Return the event that was encoded, or what says why it cannot be decoded."""
        for is_last in (False, True):
            try:
                return super().decode(payload, what)
            except DamagedError as error:
                return Undecodable(error.reason)
            except Exception as error:
                # An upcaster that this event is too much for; what a signal handler raised does not come again.
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
    Return the stored form of a meta; None where it says nothing.

    Raises:
        LimitExceededError: it has more than META_BYTES_MAX bytes.
    """
    if meta is NO_META or meta == NO_META:
        return None
    stored = require_meta_size(_META_ENCODER.encode(meta))
    # An array of as many as there were before fingerprints: the first byte is their number, the last one the nil.
    return stored if meta.fingerprint is not None else FIVE_FIELDS + stored[1:-1]


def decode_meta(stored: bytes | None, what: str = "an event") -> Meta:
    """
    Return the meta that `encode_meta` was given; `what` names the event in the error.

    Raises:
        DamagedError: the bytes are no meta.
    """
    if stored is None:
        return NO_META
    try:
        return _META_DECODER.decode(stored)
    except (msgspec.DecodeError, ValueError) as error:
        raise DamagedError(what, f"its envelope cannot be read ({error})") from error


CODEC = Codec(reduce(or_, (kind.events for kind in EVERY_KIND), StoreEvent))
