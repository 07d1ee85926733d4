"""
From one sequence of items to the next: what the fold does while it goes through many events.

The builder owns what it changes, so that ten thousand edits in a row cost what they touch, and nothing is worked
out before the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ...spans import Ref, Span, refs_of
from ...totals import Totals
from ..events import ChatItemEvent, Placement
from .arena import Birthplace
from .sequence import Edits, Gone, Items


class TakenItem(msgspec.Struct, frozen=True):
    """An item of another stream, under the name that the taking event gives it."""

    ref: Ref
    item: ChatItemEvent


class ItemsBuilder:
    """Goes from `items` to what they become."""

    def __init__(self, items: Items) -> None:
        self._from = items
        self._items = items
        # What was begun here is nobody else's, however many forks it goes through.
        self._is_own = not items.reach
        self._edits: Edits | None = None
        self._change = Totals()

    def built(self) -> Items:
        """Return the items as they are now."""
        if self._edits is None:
            return self._items
        arena, count = self._items.arena, self._items.reach
        known = self._from.known_totals() if self._are_counted else None
        basis = None
        if known is not None:
            basis = (count, known + arena.totals(count) + -arena.totals(self._from.reach) + self._change)
        lineage, is_borrowed = self._items.lineage, self._items.is_borrowed
        return Items(arena, count, self._edits, lineage=lineage, basis=basis, is_borrowed=is_borrowed)

    def append(self, items: Sequence[ChatItemEvent], version: int) -> None:
        """Put items of the own stream at the end."""
        self._items = self._items.plus(items, version)

    def insert(self, item: ChatItemEvent, version: int, before: Ref) -> None:
        """Put an item of the own stream right before another one."""
        self.append((item,), version)
        self._place(self._items.reach - 1, before)

    def take(self, taken: Iterable[TakenItem]) -> None:
        """Put items of other streams at the end."""
        arena = self._items.own_arena()
        for one in taken:
            place: Birthplace = one.ref.stream
            arena.extend((one.item,), place, one.ref.version)
        self._items = Items(arena, len(arena.items), self._items.edits, lineage=self._items.lineage)

    def place(self, placements: Iterable[Placement], first: int) -> None:
        """Move what was taken, from ordinal `first` on, to where a merge put it."""
        ordinal = first
        for placement in placements:
            for _ in refs_of(placement.items):
                if placement.before is not None:
                    self._place(ordinal, placement.before)
                ordinal += 1

    def hide(self, ordinals: Iterable[int], gone: Gone) -> None:
        """Let items leave the view."""
        edits = self._own_edits()
        leaving = [ordinal for ordinal in ordinals if ordinal not in edits.gone]
        edits.gone.update(dict.fromkeys(leaving, gone))
        self._count(leaving, -1)

    def show(self, ordinals: Iterable[int]) -> None:
        """Let items come back into the view."""
        edits = self._own_edits()
        back = [ordinal for ordinal in ordinals if edits.gone.pop(ordinal, None) is not None]
        self._count(back, 1)

    def pin(self, ordinals: Iterable[int], *, is_pinned: bool) -> None:
        """Pin items, or unpin them."""
        edits = self._own_edits()
        (edits.pinned.update if is_pinned else edits.pinned.difference_update)(ordinals)

    def fork(self, parent: str) -> None:
        """Go on as a child of `parent`, which is the stream that these items have been the own stream of."""
        self._items = self._from = self.built().forked(parent, is_borrowed=not self._is_own)
        self._edits, self._change = None, Totals()

    def start_again(self, taken: Iterable[TakenItem]) -> None:
        """Go on as a context that holds these items of others alone."""
        self._items = self._from = Items()
        self._edits, self._change = None, Totals()
        self.take(taken)

    def ordinals(self, spans: Iterable[Span]) -> list[int]:
        """
        Return the ordinals of the items that an event of the own stream names; those it does not know are left out.
        """
        return self._items.of_spans(spans)

    def ordinal(self, ref: Ref) -> int | None:
        """Return the ordinal of one item; None where it is not known."""
        return self._items.of_ref(ref)

    @property
    def count(self) -> int:
        """How many items there are, evicted ones too."""
        return self._items.reach

    @property
    def _are_counted(self) -> bool:
        """Where nobody asked for totals yet, as while loading, nothing is summed before somebody does."""
        return bool(self._from.reach) and self._from.arena.has_totals

    def _count(self, ordinals: list[int], sign: int) -> None:
        if self._are_counted:
            change = self._items.total_of(ordinals)
            self._change += change if sign > 0 else -change

    def _place(self, ordinal: int, before: Ref) -> None:
        anchor = self._items.of_ref(before)
        if anchor is not None:
            self._own_edits().place(ordinal, anchor)

    def _own_edits(self) -> Edits:
        if self._edits is None:
            self._edits = self._items.edits.copied() if self._items.edits else Edits()
            # From here on appending must not lengthen an order that no longer holds.
            arena, count, lineage = self._items.arena, self._items.reach, self._items.lineage
            borrowed = self._items.is_borrowed
            self._items = Items(arena, count, self._edits, lineage=lineage, is_borrowed=borrowed)
        return self._edits
