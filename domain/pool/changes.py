"""
The changes of queues and pools: the command of each, and the hooks that are called before and after it.

A change is prepared on the present state, announced on a stage and recorded; then the hooks that come after it are
called. Where it must be recorded behind an event of another writer, it is prepared and announced again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import EllipsisType
from typing import Any, ClassVar, NamedTuple, Protocol

from ..errors import NotFoundError
from ..log.ports import Log
from ..spans import Ref, spans_of
from .events import AddedEvent, ContainerEvent
from .items import ContextItem, Held
from .rules import Add, ChangeSettings, Clear, Command, Evict, Kind, Remove, Restore, overflow
from .state import ContainerState, Departures, Resolved, absolute, fold, named_items, ref_of


class Stage:
    """A container's state while its hooks are told of a change, step by step."""

    def __init__(self, owner: object, state: ContainerState) -> None:
        self.owner, self.state = owner, state
        # A task that a hook started may outlive the change; it then sees what is, like everybody else.
        self.is_open = True
        self.process = os.getpid()

    def see(self, *events: ContainerEvent | Resolved) -> None:
        """Let the hooks that follow see the container behind `events`."""
        self.state = fold(self.state, events)


_STAGES: ContextVar[tuple[Stage, ...]] = ContextVar("refold_stages", default=())


def stage_of(owner: object) -> Stage | None:
    """Return the stage that is set for the container of a journal in this flow of control, if any."""
    for stage in reversed(_STAGES.get()):
        # A child that a hook forked is not told of the change either.
        if stage.owner is owner and stage.is_open and stage.process == os.getpid():
            return stage
    return None


@contextmanager
def staged(owner: object, state: ContainerState) -> Iterator[Stage]:
    """Set a stage for the container of a journal within the block."""
    stage = Stage(owner, state)
    token = _STAGES.set((*_STAGES.get(), stage))
    try:
        yield stage
    finally:
        stage.is_open = False
        _STAGES.reset(token)


def returning(stream: str, events: Iterable[ContainerEvent | Resolved], names: Sequence[str]) -> list[Held]:
    """
    Return the items of the container `stream` that left with its events so far under these names: births, or in a
    pool ids.

    An id means the item that left last with it. The items are named with their stream.

    Raises:
        NotFoundError: no such item left, or it is back.
    """
    departures = Departures(stream)
    departures.go_on(events)
    gone = {ref: left.held for ref, left in departures.gone().items()}
    by_id = {held.event.id: ref for ref, held in gone.items()} if departures.state.is_pool else {}
    found: dict[Ref, Held] = {}
    for name in names:
        ref = by_id.get(name) or (ref_of(name, stream) if "@" in name or name.isdecimal() else None)
        if ref is None or ref not in gone:
            raise NotFoundError(f"{stream} let go of no item {name!r}: `evicted()` lists those that left")
        found[ref] = Held(absolute(ref, stream), gone[ref].event)
    return list(found.values())


# Those of both kinds: a queue has no BEFORE_ADD, a pool no BEFORE_APPEND.
COMING = ("ON_EVICT", "BEFORE_ADD", "BEFORE_APPEND")


class Owner(Protocol):
    """A queue or a pool, as its changes see it."""

    kind: ClassVar[Kind]

    @property
    def stream(self) -> str:
        """The stream that holds its events."""

    @property
    def log(self) -> Log:
        """The log that it lives in."""

    def __iter__(self) -> Iterator[ContextItem[Any]]:
        """Yield its items."""

    def completed_events(self, version: int) -> Sequence[ContainerEvent | Resolved]:
        """Return the events up to a version as they are folded."""

    def added_event(self, item: object) -> AddedEvent:
        """Return the event that brings an item in."""

    def has_hooks(self, name: str) -> bool:
        """Return whether any hook is called for the type with this name."""

    async def fire(self, name: str, *args: Any) -> None:
        """Call the hooks of the type with this name."""


class Change:
    """
    One change of one container; `asked` names the hook types that are called before it.

    What `catches_up` is made once more behind what another writer did first; of an edit its caller is told.
    """

    asked: tuple[str, ...] = ()
    catches_up: bool = True
    # Whether it takes a look at the log, or at everything that is held: not for a running loop to wait for.
    is_long = False

    def call(self) -> object:
        """Return what stands for the change in the fingerprint of a call: what its caller gave."""
        raise NotImplementedError

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        """Return what is to be done, given the present state; may read the log."""
        raise NotImplementedError

    async def announce(self, container: Owner, stage: Stage) -> None:
        """Call the hooks that may stop the change, each with the container as it then is."""

    def see_result(self, container: Owner) -> None:
        """Take what `tell` will show, before anybody else changes the container."""

    async def tell(self, container: Owner) -> None:
        """Call the hooks that come after the change."""


class Coming(NamedTuple):
    """An item that is to come in, and the event that lets hooks see it there."""

    item: ContextItem[Any]
    event: ContainerEvent | Resolved


async def announce_coming(container: Owner, stage: Stage, coming: Sequence[Coming]) -> None:
    """Tell a container's hooks of items before they come in, and of each that makes room for one."""
    if container.has_hooks("BEFORE_APPEND"):
        # Only where somebody wants the list does a change cost what the queue holds.
        current = [held.item for held in stage.state.items.values()]
        await container.fire("BEFORE_APPEND", container, [one.item for one in coming], current)
    for one in coming:
        if one.item.id is None or container.kind.name == "queue" or one.item.id not in stage.state.items:
            await announce_leaving(container, stage, overflow(stage.state, 1))
        if container.kind.name == "pool":
            await container.fire("BEFORE_ADD", container, one.item)
        stage.see(one.event)


async def announce_leaving(container: Owner, stage: Stage, leaving: Iterable[Held], reason: str = "limit") -> None:
    """Tell of items that are evicted, one by one, each while it is still there."""
    for held in leaving:
        await fire_with_item(container, "ON_EVICT", held)
        stage.see(container.kind.evicted(items=spans_of([held.ref]), reason=reason, change=-held.totals))


def current_for_hooks(container: Owner) -> list[ContextItem[Any]]:
    """Return what a container holds, if a hook will be shown it: else nobody needs the items, nor their classes."""
    return list(container) if container.has_hooks("AFTER_APPEND") else []


async def tell_came(container: Owner, came: Sequence[Held | ContextItem[Any]], current: list[ContextItem[Any]]) -> None:
    """Tell a container's hooks, if it has any, of items that came in."""
    name = "AFTER_APPEND" if container.kind.name == "queue" else "AFTER_ADD"
    if not container.has_hooks(name):
        return
    items = [one.item if isinstance(one, Held) else one for one in came]
    if container.kind.name == "queue":
        await container.fire(name, items, current)
        return
    for item in items:
        await container.fire(name, container, item)


async def fire_with_item(container: Owner, name: str, held: Held | None) -> None:
    """Call the hooks of a type, if there are any, with one item."""
    if held is not None and container.has_hooks(name):
        await container.fire(name, container, held.item)


class Clearing(Change):
    """All items leave."""

    asked = ("BEFORE_CLEAR",)
    catches_up = False

    def call(self) -> object:
        """Return the name of the change: nothing is given for it."""
        return ("clear",)

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        """Return the command to clear."""
        return Clear()

    async def announce(self, container: Owner, stage: Stage) -> None:
        """Show what there was: a list of a queue's items, a dict of a pool's."""
        items = [held.item for held in stage.state.items.values()]
        shown = {item.id: item for item in items} if container.kind.name == "pool" else items
        await container.fire("BEFORE_CLEAR", container, shown)

    async def tell(self, container: Owner) -> None:
        """Show the empty container."""
        await container.fire("AFTER_CLEAR", container)


class Evicting(Change):
    """Named items leave."""

    asked = ("ON_EVICT",)
    catches_up = False
    is_long = True

    def __init__(self, births: Sequence[str], reason: str) -> None:
        self._births, self._reason = births, reason

    def call(self) -> object:
        """Return the births that were given, and the reason."""
        return ("evict", self._births, self._reason)

    def _leaving(self, container: Owner, state: ContainerState) -> list[Held]:
        stream = container.stream
        refs = dict.fromkeys(ref_of(birth, stream) for birth in self._births)
        return named_items(state, list(refs), stream)

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        """Return the command that names them as the events do."""
        return Evict(tuple(held.ref for held in self._leaving(container, state)), self._reason)

    async def announce(self, container: Owner, stage: Stage) -> None:
        """Tell of each."""
        await announce_leaving(container, stage, self._leaving(container, stage.state), self._reason)


class Restoring(Change):
    """Items that had left come back."""

    asked = COMING
    catches_up = False
    is_long = True

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._items: list[Held] = []
        self._current: list[ContextItem[Any]] = []

    def call(self) -> object:
        """Return the names that were given."""
        return ("restore", self._names)

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        """Look them up in the log, since the state holds only what is there."""
        self._items = returning(container.stream, container.completed_events(state.version), self._names)
        return Restore(tuple(self._items))

    async def announce(self, container: Owner, stage: Stage) -> None:
        """Tell of each as of one that is new."""
        coming = [
            Coming(
                held.item, Resolved(container.kind.restored(items=spans_of([held.ref]), change=held.totals), (held,))
            )
            for held in self._items
        ]
        await announce_coming(container, stage, coming)

    def see_result(self, container: Owner) -> None:
        """Take what is there now, if a hook will want it."""
        self._current = current_for_hooks(container)

    async def tell(self, container: Owner) -> None:
        """Tell of them as of new ones."""
        await tell_came(container, self._items, self._current)


class ChangingSettings(Change):
    """The limit or the tags become others."""

    asked = ("ON_EVICT",)
    catches_up = False

    def __init__(self, limit: int | EllipsisType | None, tags: tuple[str, ...] | None) -> None:
        self._limit, self._tags = limit, tags

    def call(self) -> object:
        """Return those of the two that were given."""
        return ("change_settings", [] if self._limit is ... else [self._limit], self._tags)

    def _new_limit(self, state: ContainerState) -> int | None:
        return state.limit if isinstance(self._limit, EllipsisType) else self._limit

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        """Leave what was not given as it is."""
        return ChangeSettings(self._new_limit(state), state.tags if self._tags is None else self._tags)

    async def announce(self, container: Owner, stage: Stage) -> None:
        """Tell of the items that have no room any more."""
        limit = self._new_limit(stage.state)
        too_many = 0 if limit is None else len(stage.state.items) - limit
        await announce_leaving(container, stage, [held for _, held in stage.state.items.first(too_many)])


class Adding(Change):
    """Given items come in."""

    asked = COMING

    def __init__(self, items: Sequence[ContextItem[Any]], events: Sequence[AddedEvent]) -> None:
        self._items, self._events = items, events
        self._current: list[ContextItem[Any]] = []

    def call(self) -> object:
        """Return the items as events have them, which is as they were given."""
        return ("add", self._events)

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        """Return the command to add them."""
        return Add(tuple(self._events))

    async def announce(self, container: Owner, stage: Stage) -> None:
        """Tell of what comes, and of what makes room."""
        coming = [Coming(item, event) for item, event in zip(self._items, self._events, strict=True)]
        await announce_coming(container, stage, coming)

    def see_result(self, container: Owner) -> None:
        """Take what is there now, if a hook will want it."""
        self._current = current_for_hooks(container)

    async def tell(self, container: Owner) -> None:
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

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        """Return the command to remove it, if it is there."""
        held = state.items.get(self._id)
        if held is None:
            raise NotFoundError(f"the pool has no item {self._id!r}")
        self._held = held
        return Remove(self._id, self._reason)

    async def announce(self, container: Owner, stage: Stage) -> None:
        """Tell of it while it is there."""
        await fire_with_item(container, "BEFORE_REMOVE", self._held)

    async def tell(self, container: Owner) -> None:
        """Tell of it when it is gone."""
        await fire_with_item(container, "AFTER_REMOVE", self._held)
