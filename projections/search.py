"""
Which items contain these words? One row for each item, at the event that first recorded it, with its words.

An item that left the view can still be found. The rows do not say whether an item is visible now. Visibility differs
from context to context: forks and merges show items that other contexts recorded, and each context removes them for
itself. Also, clearing a context would change every row of it. To learn whether a found item is visible, look at the
context.

Rows hold words only. The text is in the log, where `searchable_text_of` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from ..domain.chat import events as chat
from ..domain.content import Content
from ..domain.ids import split_stream_id
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.memory import events as memory
from ..domain.pool import events as pool
from ..domain.window import events as window
from ..domain.words import WORDS_BYTES_MAX, words_of
from .contract import SearchedRow
from .json_texts import RUN_EVENTS, texts_of_run_event


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """
    An item that was found; it was first recorded with `version` of the context.

    `item` is its id, empty if it has none. `snippet` is a piece of its text, on one line. A higher `rank` fits better.
    Ranks of different queries or databases cannot be compared.
    """

    kind: str
    context: str
    version: int
    item: str
    snippet: str
    rank: float


class SearchableText(NamedTuple):
    """The searchable text of an item: its id, and all its texts."""

    item: str
    text: str


class Search:
    """The fold behind `store.search()` and `refold search`."""

    name = "search"
    version = 2
    row = SearchedRow
    stays_in_slice = True

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the reference of the event that added the item, if the event added one or a piece of one."""
        if isinstance(event.event, chat.PIECES):
            return (f"{event.stream}@{event.event.item.version}",)
        source = _SOURCES.get(type(event.event))
        return () if source is None or source.item_of(event.event) is None else (event.reference,)

    def evolve(self, key: str, row: SearchedRow | None, event: RecordedEvent) -> SearchedRow | None:
        """Return the row of the item to which `event` added something."""
        if isinstance(event.event, chat.PIECES):
            # A piece ends after a whole word, so the words of all pieces are the words of the text.
            words = f"{row.words} {words_of(event.event.text)}".strip() if row is not None else ""
            # Only a long text can reach WORDS_BYTES_MAX; then all its words are counted again.
            is_short = len(words) * 4 <= WORDS_BYTES_MAX
            return row and msgspec.structs.replace(row, words=words if is_short else words_of(words))
        passage = searchable_text_of(event.event)
        assert passage is not None
        return SearchedRow(
            key=key,
            kind=split_stream_id(event.stream)[0],
            stream=event.stream,
            version=event.version,
            recorded_at=event.recorded_at,
            words=words_of(passage.text),
        )


def searchable_text_of(event: Event) -> SearchableText | None:
    """Return the id and the text of the item that an event added; None if it added none."""
    source = _SOURCES.get(type(event))
    item = None if source is None else source.item_of(event)
    if source is None or item is None:
        return None
    texts: list[str] = []
    kind: Any = type(item)
    for field in _fields_of(kind, source.fields):
        value = getattr(item, field)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, str):
                texts.append(_readable(part))
            elif isinstance(part, Content):
                texts.append(_readable(part.json.decode() if part.text is None else part.text))
    return SearchableText(getattr(item, source.name) or "", "\n".join(texts))


# An item has two or three of the fields, and a search of a large log folds millions of items.
@cache
def _fields_of(kind: type, fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return the searched fields that items of a type have."""
    return tuple(field for field in fields if hasattr(kind, field))


def _readable(text: str) -> str:
    r"""Return a text, without its escapes if it is JSON: `"first\nsecond"` as JSON would give the word `nsecond`."""
    if "\\" not in text or not _is_json(text):
        return text
    # One pass of Python's decoder reads all escapes of JSON but that of a slash. JSON holds no control characters, so
    # this one can stand for an escaped backslash.
    if r"\/" in text:
        text = text.replace(r"\\", "\1").replace(r"\/", "/").replace("\1", r"\\")
    plain = text.encode("raw_unicode_escape").decode("unicode_escape")
    if r"\ud" in text or r"\uD" in text:
        # Pairs of surrogates are one character. JSON can hold a lone one, which UTF-8 cannot encode.
        plain = plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        # Nothing is made of it: this takes a tenth of the time of the standard library.
        msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError):
        # The standard library also takes NaN and lone surrogates, which tools write.
        try:
            json.loads(text, parse_int=len)
        except (ValueError, RecursionError):
            return False
    return True


class _Source(NamedTuple):
    """
    The events that add items of a kind of context, and how to read the item of one; not every such event has an item.

    `name` is the field with the item's name or id; `fields` are the fields with its texts.
    """

    events: tuple[type[Event], ...]
    fields: tuple[str, ...]
    name: str = "id"
    item_of: Callable[[Any], Any] = lambda event: event


# All texts of people, models and functions, with names of functions and their arguments; images are not searched.
_CHAT = _Source(
    (*chat.ITEM_EVENTS, chat.ItemInserted, chat.InstructionsReplaced, chat.CallChanged, chat.Summarized, chat.Forked),
    ("content", "name", "arguments", "output", "from_agent", "to_agent", "reason", "instructions", "tools"),
    item_of=chat.added_item,
)
# The searched events and fields, by kind of context.
_BY_KIND = {
    "chat": _CHAT,
    "queue": _Source((pool.QueueAppended,), ("description", "content")),
    "pool": _Source((pool.PoolAdded, pool.PoolReplaced), ("id", "description", "content")),
    "window": _Source(window.ITEM_EVENTS, ("key", "value", "source"), name="key"),
    "memory": _Source(memory.ITEM_EVENTS, ("key", "value", "tags"), name="key"),
    "run": _Source(RUN_EVENTS, ("texts",), name="name", item_of=texts_of_run_event),
}
_SOURCES = {event: source for source in _BY_KIND.values() for event in source.events}
SEARCHED_KINDS = tuple(_BY_KIND)
SEARCH = Search()
