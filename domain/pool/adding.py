"""The changes that bring given items in, and the one that takes an item out of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import NotFoundError
from .changes import COMING, Change, Coming, Stage, announce_coming, current_for_hooks, fire_with_item, tell_came
from .commands import Add, Command, Remove
from .container import Container
from .events import AddedEvent
from .items import ContextItem, Held
from .state import ContainerState


class Adding(Change):
    """Given items come in."""

    asked = COMING

    def __init__(self, items: Sequence[ContextItem[Any]], events: Sequence[AddedEvent]) -> None:
        self._items, self._events = items, events
        self._current: list[ContextItem[Any]] = []

    def call(self) -> object:
        """Return the items as events have them, which is as they were given."""
        return ("add", self._events)

    def prepare(self, container: Container[Any], state: ContainerState) -> Command:
        """Return the command to add them."""
        return Add(tuple(self._events))

    async def announce(self, container: Container[Any], stage: Stage) -> None:
        """Tell of what comes, and of what makes room."""
        coming = [Coming(item, event) for item, event in zip(self._items, self._events, strict=True)]
        await announce_coming(container, stage, coming)

    def see_result(self, container: Container[Any]) -> None:
        """Take what is there now, if a hook will want it."""
        self._current = current_for_hooks(container)

    async def tell(self, container: Container[Any]) -> None:
        """Tell of what came."""
        await tell_came(container, self._items, self._current)


class Removing(Change):
    """An item is taken out of a pool."""

    asked = ("BEFORE_REMOVE",)
    catches_up = False

    def __init__(self, item_id: str, reason: str | None) -> None:
        self._id, self._reason = item_id, reason
        self._held: Held | None = None

    def call(self) -> object:
        """Return the id and the reason."""
        return ("remove", self._id, self._reason)

    def prepare(self, container: Container[Any], state: ContainerState) -> Command:
        """Return the command to remove it, if it is there."""
        held = state.items.get(self._id)
        if held is None:
            raise NotFoundError(f"the pool has no item {self._id!r}")
        self._held = held
        return Remove(self._id, self._reason)

    async def announce(self, container: Container[Any], stage: Stage) -> None:
        """Tell of it while it is there."""
        await fire_with_item(container, "BEFORE_REMOVE", self._held)

    async def tell(self, container: Container[Any]) -> None:
        """Tell of it when it is gone."""
        await fire_with_item(container, "AFTER_REMOVE", self._held)
