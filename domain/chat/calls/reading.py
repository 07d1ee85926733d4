"""
What can be read of a chat context, of its present or of any version of its past.

`ChatView` reads through a `ChatSource`: the live journal, or one version of the past.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ...errors import NotFoundError
from ...formats.anthropic.send import anthropic_messages
from ...formats.google.send import google_contents, to_google_types
from ...formats.openai.send import openai_messages
from ...formats.responses.send import openai_responses_input
from ...frozen import FrozenList
from ...totals import Totals
from ..dict_form import items_to_dict
from ..events import ChatItemEvent
from ..items import ChatItem, ChatMessage
from ..state.arena import Arena
from ..state.fold import ChatState, active_config
from ..state.loading import last_items
from ..state.sequence import Items
from ..tokens import RunningTokens, TokenCounter
from ..views import item_of
from .home import ChatHome


class EvictedItem(msgspec.Struct, frozen=True):
    """
    An item that left the view: by which call (`how`: evict, truncate, clear, replace, summarize, undo_summary or
    merge), why, and with which version.
    """

    item: ChatItem
    how: str
    reason: str | None
    version: int


class ChatSource(Protocol):
    """Where a view reads: a state at a version, and the last events before it without the whole."""

    @property
    def home(self) -> ChatHome:
        """Where the context lives."""

    @property
    def stream(self) -> str:
        """The stream of the context."""

    @property
    def version(self) -> int:
        """The version that is shown."""

    @property
    def is_loaded(self) -> bool:
        """Whether `state` costs nothing."""

    @property
    def state(self) -> ChatState:
        """The folded state at `version`."""

    @property
    def totals(self) -> Totals:
        """How much is held: items, turns and estimated tokens."""

    def last_events(self, count: int) -> list[Any]:
        """Return the last `count` events up to `version`, without reading those before them."""

    def settle(self) -> None:
        """Wait until what is shown is on disk, so that other streams may name it."""


class ChatView:
    """The reading half of a chat context (SPEC V2, V3)."""

    def __init__(self, source: ChatSource) -> None:
        self._source = source
        self._shown: tuple[Items | None, FrozenList[ChatItem]] = (None, FrozenList())
        # Public items by ordinal of one arena, so that an edit does not have all of them made again.
        self._made: tuple[Arena | None, list[ChatItem]] = (None, [])
        self._counted: dict[TokenCounter, RunningTokens] = {}

    @property
    def version(self) -> int:
        """The stream version that this view shows; 0 before anything was recorded."""
        return self._source.version

    @property
    def items(self) -> FrozenList[ChatItem]:
        """All items in order, as a read-only list (SPEC V2.3); made once per version."""
        recorded = self._source.state.items
        seen, shown = self._shown
        if recorded is not seen:
            shown = self._items_of(recorded, seen, shown)
            self._shown = (recorded, shown)
        return shown

    def _items_of(self, recorded: Items, seen: Items | None, shown: FrozenList[ChatItem]) -> FrozenList[ChatItem]:
        if seen is not None and recorded.continues(seen):
            return FrozenList([*shown, *map(item_of, recorded[len(shown) :])])
        if recorded.edits is None:
            return FrozenList(map(item_of, recorded))
        arena, made = self._made
        if arena is not recorded.arena:
            made = []
        made += map(item_of, recorded.arena.items[len(made) : recorded.reach])
        self._made = (recorded.arena, made)
        return FrozenList(map(made.__getitem__, recorded.order()))

    def messages(self) -> list[ChatMessage]:
        """Return the messages only, in order (SPEC V2.4)."""
        return [item for item in self.items if isinstance(item, ChatMessage)]

    def turn_count(self) -> int:
        """Return the number of user messages (SPEC V2.4)."""
        return self._source.totals.turns

    def estimated_tokens(self, counter: TokenCounter | None = None) -> int:
        """
        Return the estimated tokens of all items: a running total, about four characters each (SPEC V2.7).

        `counter` counts the tokens of a text in another way; each item is given to it once.
        """
        if counter is None:
            return self._source.totals.tokens
        return self._counted.setdefault(counter, RunningTokens(counter)).total(self._source.state.items)

    def get_by_id(self, item_id: str) -> ChatItem | None:
        """Return the item with this id, or None (SPEC V2.6)."""
        items = self._source.state.items
        ordinal = items.visible_ordinal(item_id)
        return None if ordinal is None else item_of(items.arena.items[ordinal])

    def evicted_items(self) -> list[EvictedItem]:
        """Return what left the view and is not back, the first to leave first."""
        items = self._source.state.items
        gone = items.edits.gone if items.edits else {}
        return [
            EvictedItem(item_of(items.arena.items[ordinal]), how.how, how.reason, how.version)
            for ordinal, how in gone.items()
        ]

    def pinned_ids(self) -> list[str]:
        """Return the ids of the items that no policy may evict, in order."""
        items = self._source.state.items
        return [items.arena.items[ordinal].id for ordinal in items.order() if items.is_pinned(ordinal)]

    def tail(self, count: int) -> list[ChatItem]:
        """Return the last `count` items, without loading those before them."""
        if count <= 0:
            return []
        return [item_of(event) for event in self._last_item_events(count)]

    def active_config_at(self, target: str | int | None = None) -> tuple[str | None, FrozenList[str] | None]:
        """
        Return (instructions, tools) in force after the item `target`: an id, an index, or None for the end.

        Instructions are those of the last system or developer message or config update; tools those of the
        last config update that had any (SPEC V3.1 to V3.3). A negative index counts from the end.

        Raises:
            NotFoundError: no item has this id or index (SPEC V3.4; a KeyError).
        """
        items = self._source.state.items
        instructions, tools = active_config(items[: self._end_of(target, items)])
        return instructions, None if tools is None else FrozenList(tools)

    def to_dict(self) -> dict[str, Any]:
        """Return the context as plain data in the seed's form, `{"items": [...]}` (SPEC V13.1)."""
        return items_to_dict(self.items)

    def to_openai_messages(self, *, reasoning_model: bool = False, exact: bool = False) -> list[dict[str, Any]]:
        """
        Return the context as messages of OpenAI chat completions, valid whatever was done to it (SPEC V9).

        What was imported comes out as it came in. A developer message made here is sent as "system"; for a
        `reasoning_model` "system" becomes "developer". `exact` repairs nothing: it is for looking at a context.
        """
        return openai_messages(self._source.state.items, reasoning_model=reasoning_model, exact=exact)

    def to_openai_responses(self) -> tuple[list[dict[str, Any]], str | None]:
        """Return (input, instructions) for OpenAI's Responses API, valid whatever was done to the context."""
        return openai_responses_input(self._source.state.items)

    def to_anthropic_messages(
        self, *, caching: bool = False, allow_prefill: bool = False, exact: bool = False
    ) -> tuple[list[dict[str, Any]], str | list[dict[str, Any]] | None]:
        """
        Return (messages, system) for Anthropic, valid whatever was done to the context (SPEC V10).

        `caching` sets up to four cache breakpoints; what stands before them stays the same, byte for byte, when
        items are appended. `allow_prefill` lets the assistant have the last word, which newer models refuse. `exact`
        gives what was imported from Anthropic messages as it came, and repairs nothing: it is for looking at a context.
        """
        items = self._source.state.items
        return anthropic_messages(items, caching=caching, allow_prefill=allow_prefill, exact=exact)

    async def to_google_contents(
        self, *, thought_signatures: Mapping[str, str | bytes] | None = None
    ) -> tuple[list[Any], str | None]:
        """
        Return (contents, system instruction) for Google, the contents as `google.genai.types.Content` (SPEC V11).

        `thought_signatures` has the last signature that the model gave for a function, by its name; a call that
        has its own, in `metadata["thought_signature"]`, keeps it.

        Raises:
            ImportError: the package google-genai is not installed.
        """
        contents, system = self.to_google_json(thought_signatures=thought_signatures)
        return to_google_types(contents), system

    def to_google_json(
        self, *, thought_signatures: Mapping[str, str | bytes] | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return what `to_google_contents` does as plain data, for which no package is needed."""
        return google_contents(self._source.state.items, thought_signatures=thought_signatures)

    def _forget_shown(self) -> None:
        self._shown = (None, FrozenList())
        self._made = (None, [])

    def recorded_items(self) -> Items:
        """Return the items as they were recorded: frozen Structs, the quickest form to read."""
        return self._source.state.items

    def _end_of(self, target: str | int | None, items: Items) -> int:
        if target is None:
            return len(items)
        place = _index(int(target), len(items)) if isinstance(target, int) else items.find(target)
        if place is None:
            raise NotFoundError(f"no item {target!r}: there are {len(items)} items")
        return place + 1

    def _last_item_events(self, count: int) -> Sequence[ChatItemEvent]:
        if self._source.is_loaded:
            return self._source.state.items[-count:]
        source = self._source
        found = last_items(source.home.log, source.stream, source.last_events, count)
        # Where an edit does not name as many, only the whole can say.
        return source.state.items[-count:] if found is None else found


def _index(index: int, length: int) -> int | None:
    place = index + length if index < 0 else index
    return place if 0 <= place < length else None
