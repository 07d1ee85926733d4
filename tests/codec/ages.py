"""An event that changed its shape twice, as a test needs it: a note of v1, v2 and v3, and the steps between."""

from typing import Any

import msgspec

from refold.infrastructure.log.codec import Codec, Upcaster


class NoteV1(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="t", tag="test.noted.v1"):
    """The oldest shape: one text, "author: words"."""

    text: str


class NoteV2(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="t", tag="test.noted.v2"):
    """The author apart."""

    author: str
    words: str


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="t", tag="test.noted.v3"):
    """The newest shape: some words, and where they came from."""

    author: str
    words: tuple[str, ...]
    source: bytes = b""


class Closed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="t", tag="test.closed.v1"):
    """An event that never changed."""

    reason: str = ""


def split_author(old: dict[str, Any]) -> dict[str, Any]:
    """v1 to v2."""
    author, _, words = old["text"].partition(": ")
    return {"author": author, "words": words}


def split_words(old: dict[str, Any]) -> dict[str, Any]:
    """v2 to v3."""
    return {"author": old["author"], "words": old["words"].split(" "), "source": b"upcast"}


OLDEST = Codec(NoteV1 | Closed)
OLD = Codec(NoteV2 | Closed)
NEWEST = Codec(
    Note | Closed,
    {"test.noted.v1": Upcaster("test.noted.v2", split_author), "test.noted.v2": Upcaster("test.noted.v3", split_words)},
)
# A Refold that never heard of notes.
IGNORANT = Codec(Closed)
