"""The result of an eviction, with its effect on a provider's prompt cache; and an item that left the view."""

from __future__ import annotations

import msgspec

from ..arguments import refuse_copy
from ..concurrency.locks import cached_property
from .items import ChatItem
from .state.sequence import Items


class EvictedItem(msgspec.Struct, frozen=True):
    """
    An item that left the view: the call that removed it, the reason, and the version.

    `how` is evict, truncate, clear, replace, summarize, undo_summary, merge or change.
    """

    item: ChatItem
    how: str
    reason: str | None
    version: int


class Eviction:
    """
    The effect of an eviction.

    A provider caches the beginning of a prompt; it reads everything after the first change again. So evicting the last
    items costs least: `tokens_kept` is the part of the prompt that stays unchanged.
    """

    __reduce__ = refuse_copy

    def __init__(self, before: Items, after: Items, version: int) -> None:
        self._before = before
        self._leaving = after.gone_since(before)
        self._version = version

    def __repr__(self) -> str:
        return f"Eviction(version={self.version}, item_ids={self.item_ids}, tokens_removed={self.tokens_removed})"

    @property
    def version(self) -> int:
        """The version of the context after the eviction."""
        return self._version

    @cached_property
    def item_ids(self) -> list[str]:
        """The ids of the items that left, in order."""
        items = self._before.item_table.items
        return [items[ordinal].id for ordinal in self._before.order() if ordinal in self._leaving]

    @property
    def tokens_removed(self) -> int:
        """The estimated tokens that left."""
        return self._before.total_of(self._leaving).tokens

    @cached_property
    def first_changed_item(self) -> int | None:
        """The index of the first item that changed, or None if no item left."""
        order = self._before.order()
        return next((place for place, ordinal in enumerate(order) if ordinal in self._leaving), None)

    @cached_property
    def first_changed_message(self) -> int | None:
        """The index of the first OpenAI message that changed, or None if no item left."""
        from ..formats.openai.send import openai_messages

        first = self.first_changed_item
        return None if first is None else len(openai_messages(self._before[:first]))

    @cached_property
    def tokens_kept(self) -> int:
        """The estimated tokens before the first change: the part of the prompt that a cache still holds."""
        return self._before.total_of(self._before.order()[: self.first_changed_item]).tokens
