"""From an event to the bytes a database keeps: encoded, its large texts taken out, the rest compressed."""

from __future__ import annotations

from ..domain.errors import InvalidInputError
from ..domain.log.admission import admitted
from ..domain.log.envelope import NO_META, Event, Meta, require_payload_size
from ..domain.log.ports import NewEvents
from .codec import encode_meta, tag_of
from .compression import Compression, Plain
from .records import Draft
from .texts import LARGE_TEXT_BYTES, extract_texts


def drafts_of(new: NewEvents, compression: Compression | Plain) -> list[Draft]:
    """
    Return the events of a batch ready to be placed.

    Raises:
        InvalidInputError: one is none that a log takes.
        LimitExceededError: one has more bytes than PAYLOAD_BYTES_MAX, or its meta than META_BYTES_MAX.
    """
    try:
        for text in (new.stream, new.idempotency_key):
            if text is not None and not text.isascii():
                text.encode()
        for meta in new.metas:
            if meta is not NO_META:
                encode_meta(meta)
        return [
            draft_of(event, meta, admitted(event, new.stream), compression)
            for event, meta in zip(new.events, new.metas, strict=True)
        ]
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"an event of {new.stream!r} cannot be stored: {error}") from error


def draft_of(event: Event, meta: Meta, payload: bytes, compression: Compression | Plain) -> Draft:
    """
    Return an event ready to be placed.

    Raises:
        LimitExceededError: it has more bytes than PAYLOAD_BYTES_MAX.
    """
    if len(payload) < LARGE_TEXT_BYTES:
        return Draft(tag_of(event), payload, compression.shrink(payload), meta)
    plain, texts = extract_texts(require_payload_size(payload))
    stored = b"" if texts else compression.shrink(payload)
    return Draft(tag_of(event), payload, stored, meta, plain, texts)
