"""
The changes of queues and pools: the command of each change, and the hooks that are called before and after it.

A change is prepared on the present state. Then the hooks before it are called, which see it step by step on a stage.
Then it is recorded, and the hooks after it are called. If another writer recorded an event first, the change is
prepared again on the new state, and the hooks before it are called again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import EllipsisType
from typing import Any, ClassVar, NamedTuple, Protocol

from msgspec.structs import replace

from ..errors import NotFoundError
from ..log.ports import Log
from ..named_events import Resolved
from ..spans import Ref, spans_of
from .events import AddedEvent, Kind
from .items import ContextItem, Held
from .rules import Add, ChangeSettings, Clear, Command, Evict, Remove, Restore, overflow
from .state import Completed, ContainerState, Departures, fold, named_items, ref_of

# The hooks before items are added, of both kinds: a queue has no BEFORE_ADD, a pool no BEFORE_APPEND.
ADDING_HOOKS = ("ON_EVICT", "BEFORE_ADD", "BEFORE_APPEND")
# Members of containers for their own modules: completion does not offer them, and async siblings lack them.
INNER_NAMES = frozenset((
    "added_event", "added_events", "change", "completed_events", "decider", "fire", "has_hooks", "hook_types", "kind",
    "log", "put_in", "repeated", "shown_state",
))  # fmt: skip


class Stage:
    """A container's state while hooks are called for a change, step by step."""

    def __init__(self, owner: object, state: ContainerState) -> None:
        self.owner, self.state = owner, state
        # A task that a hook started may run longer than the change; from then on it sees the container's own state.
        self.is_open = True
        self.process = os.getpid()

    def apply(self, *events: Completed) -> None:
        """Apply `events` to the state that the next hooks see."""
        self.state = fold(self.state, events)


_STAGES: ContextVar[tuple[Stage, ...]] = ContextVar("refold_stages", default=())


def stage_of(owner: object) -> Stage | None:
    """Return the stage that is set for the container of a journal in this flow of control, if any."""
    for stage in reversed(_STAGES.get()):
        # A stage of the parent process does not count in a child process that a hook forked.
        if stage.owner is owner and stage.is_open and stage.process == os.getpid():
            return stage
    return None


@contextmanager
def staged(owner: object, state: ContainerState) -> Iterator[Stage]:
    """Set a stage for the container of a journal while the block runs."""
    stage = Stage(owner, state)
    token = _STAGES.set((*_STAGES.get(), stage))
    try:
        yield stage
    finally:
        stage.is_open = False
        _STAGES.reset(token)


def returning(stream: str, events: Iterable[Completed], names: Sequence[str]) -> list[Held]:
    """
    Return the items with these names that left the container `stream` with its events so far. A name is that of the
    item's origin or, in a pool, its id, which means the last item with this id that left.

    The refs of the returned items include their stream.

    Raises:
        NotFoundError: no such item left, or it was restored.
    """
    departures = Departures(stream, events)
    gone = {ref: left.held for ref, left in departures.gone().items()}
    by_id = {held.event.id: ref for ref, held in gone.items()} if departures.state.is_pool else {}
    found: dict[Ref, Held] = {}
    for name in names:
        ref = by_id.get(name) or (ref_of(name, stream) if "@" in name or name.isdecimal() else None)
        if ref is None or ref not in gone:
            raise NotFoundError(f"no item {name!r} left {stream}: `evicted()` lists those that left")
        found[ref] = Held(ref.within(stream), gone[ref].event)
    return list(found.values())


class Owner(Protocol):
    """A queue or a pool, as the code of its changes uses it."""

    kind: ClassVar[Kind]

    @property
    def stream_id(self) -> str:
        """The stream that holds its events."""

    @property
    def log(self) -> Log:
        """The log that stores it."""

    def __iter__(self) -> Iterator[ContextItem[Any]]:
        """Yield its items."""

    def completed_events(self, version: int) -> Sequence[Completed]:
        """Return the events up to a version in the form that the fold takes."""

    def added_event(self, item: object) -> AddedEvent:
        """Return the event that adds an item."""

    def has_hooks(self, name: str) -> bool:
        """Return whether any hook of this type is registered."""

    async def fire(self, name: str, *args: Any) -> None:
        """Call the hooks of this type."""


class Change:
    """
    A change of one container; `asked` names the types of hooks that are called before it.

    If another writer came first, a change with `catches_up` is prepared again; any other change raises an error.
    """

    asked: tuple[str, ...] = ()
    catches_up: bool = True
    # Whether `prepare` reads the log or all items: that takes too long for a running event loop.
    is_long = False
    # The arguments of the call, or a function that returns them. They identify a repeated call.
    call: object = None

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        """Return the command for the present state; may read the log."""
        raise NotImplementedError

    async def fire_before(self, container: Owner, stage: Stage) -> None:
        """Call the hooks before the change, which may stop it; each sees the container's state at its step."""

    def keep_result(self, container: Owner) -> None:
        """Keep the items that `fire_after` will pass to hooks, before another change follows."""

    async def fire_after(self, container: Owner) -> None:
        """Call the hooks after the change."""


class ItemToAdd(NamedTuple):
    """An item to be added, and the event that adds it on a stage."""

    item: ContextItem[Any]
    event: Completed


async def fire_before_adding(container: Owner, stage: Stage, coming: Sequence[ItemToAdd]) -> None:
    """Call the hooks before items are added, and before items leave to make room for them."""
    if container.has_hooks("BEFORE_APPEND"):
        # The list costs time for each item in the queue, so it is made only for a hook.
        current = [held.item for held in stage.state.items.values()]
        await container.fire("BEFORE_APPEND", container, [one.item for one in coming], current)
    for one in coming:
        if one.item.id is None or container.kind.name == "queue" or one.item.id not in stage.state.items:
            await fire_before_evicting(container, stage, overflow(stage.state, 1))
        if container.kind.name == "pool":
            await container.fire("BEFORE_ADD", container, one.item)
        stage.apply(one.event)


async def fire_before_evicting(container: Owner, stage: Stage, leaving: Iterable[Held], reason: str = "limit") -> None:
    """Call the hooks before items are evicted, one by one: each item is still in the container when its hook runs."""
    for held in leaving:
        await fire_for_item(container, "ON_EVICT", held)
        stage.apply(container.kind.evicted(items=spans_of([held.ref]), reason=reason, change=-held.totals))


async def fire_for_item(container: Owner, name: str, held: Held | None) -> None:
    """Call the hooks of a type, if there are any, with the container and an item."""
    if held is not None and container.has_hooks(name):
        await container.fire(name, container, held.item)


class AddingChange(Change):
    """A change that adds items. `_came` has the added items, `_current` all items after the change."""

    asked: tuple[str, ...] = ADDING_HOOKS
    _came: Sequence[Held | ContextItem[Any]] = ()
    _current: Sequence[ContextItem[Any]] = ()

    def keep_result(self, container: Owner) -> None:
        """Keep the present items for a hook; without a hook, neither they nor their classes are loaded."""
        self._current = list(container) if container.has_hooks("AFTER_APPEND") else []

    async def fire_after(self, container: Owner) -> None:
        name = "AFTER_APPEND" if container.kind.name == "queue" else "AFTER_ADD"
        if not container.has_hooks(name):
            return
        items = [one.item if isinstance(one, Held) else one for one in self._came]
        if container.kind.name == "queue":
            await container.fire(name, items, self._current)
            return
        for item in items:
            await container.fire(name, container, item)


def restored_item(container: Owner, held: Held) -> ItemToAdd:
    """Return an item that is in the log already, and the event that restores it on a stage."""
    restored = container.kind.restored(items=spans_of([held.ref]), change=held.totals)
    return ItemToAdd(held.item, Resolved(restored, (held,)))


class Clearing(Change):
    """Remove all items."""

    asked = ("BEFORE_CLEAR",)
    catches_up = False
    call = ("clear",)

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        return Clear()

    async def fire_before(self, container: Owner, stage: Stage) -> None:
        items = [held.item for held in stage.state.items.values()]
        shown = {item.id: item for item in items} if container.kind.name == "pool" else items
        await container.fire("BEFORE_CLEAR", container, shown)

    async def fire_after(self, container: Owner) -> None:
        await container.fire("AFTER_CLEAR", container)


class Evicting(Change):
    """Evict items by name."""

    asked = ("ON_EVICT",)
    catches_up = False
    is_long = True

    def __init__(self, births: Sequence[str], reason: str) -> None:
        self._births, self._reason = births, reason
        self.call = ("evict", births, reason)

    def _leaving(self, container: Owner, state: ContainerState) -> list[Held]:
        stream = container.stream_id
        refs = dict.fromkeys(ref_of(birth, stream) for birth in self._births)
        return named_items(state, list(refs), stream)

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        return Evict(tuple(held.ref for held in self._leaving(container, state)), self._reason)

    async def fire_before(self, container: Owner, stage: Stage) -> None:
        await fire_before_evicting(container, stage, self._leaving(container, stage.state), self._reason)


class Restoring(AddingChange):
    """Restore items that had left."""

    catches_up = False
    is_long = True

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._items: list[Held] = []
        self.call = ("restore", names)

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        # The items are read from the log, because the state holds only present items.
        events = container.completed_events(state.version)
        self._came = self._items = returning(container.stream_id, events, self._names)
        return Restore(tuple(self._items))

    async def fire_before(self, container: Owner, stage: Stage) -> None:
        await fire_before_adding(container, stage, [restored_item(container, held) for held in self._items])


class ChangingSettings(Change):
    """Change the limit or the tags."""

    asked = ("ON_EVICT",)
    catches_up = False

    def __init__(self, limit: int | EllipsisType | None, tags: tuple[str, ...] | None) -> None:
        self._limit, self._tags = limit, tags
        self.call = ("change_settings", [] if limit is ... else [limit], tags)

    def _new_limit(self, state: ContainerState) -> int | None:
        return state.limit if isinstance(self._limit, EllipsisType) else self._limit

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        # A setting that was not given stays as it is.
        return ChangeSettings(self._new_limit(state), state.tags if self._tags is None else self._tags)

    async def fire_before(self, container: Owner, stage: Stage) -> None:
        limited = replace(stage.state, limit=self._new_limit(stage.state))
        await fire_before_evicting(container, stage, overflow(limited, 0))


class Adding(AddingChange):
    """Add items."""

    def __init__(self, items: Sequence[ContextItem[Any]], events: Sequence[AddedEvent]) -> None:
        self._came = self._items = items
        self._events = events
        self.call = ("add", events)

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        return Add(tuple(self._events))

    async def fire_before(self, container: Owner, stage: Stage) -> None:
        coming = [ItemToAdd(item, event) for item, event in zip(self._items, self._events, strict=True)]
        await fire_before_adding(container, stage, coming)


class Removing(Change):
    """Remove an item from a pool."""

    asked = ("BEFORE_REMOVE",)
    catches_up = False

    def __init__(self, item_id: str, reason: str | None) -> None:
        self._id, self._reason = item_id, reason
        self._held: Held | None = None
        self.call = ("remove", item_id, reason)

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        held = state.items.get(self._id)
        if held is None:
            raise NotFoundError(f"the pool has no item {self._id!r}")
        self._held = held
        return Remove(self._id, self._reason)

    async def fire_before(self, container: Owner, stage: Stage) -> None:
        await fire_for_item(container, "BEFORE_REMOVE", self._held)

    async def fire_after(self, container: Owner) -> None:
        await fire_for_item(container, "AFTER_REMOVE", self._held)
