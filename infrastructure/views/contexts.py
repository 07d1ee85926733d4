"""
Contexts at one version, for the reading commands and the page.

Queues, pools, windows and memories are folded here, from a snapshot and the events after it. The context classes would
make contents instances of their classes, and these belong to programs that a reader of the store does not load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...domain.canonical import parse_json
from ...domain.chat.context import ChatContext
from ...domain.chat.events import ITEM_EVENTS, ChatItemEvent, Forked, FunctionCalled, Named, Opened, StateSaved
from ...domain.chat.pairing import pair_calls
from ...domain.chat.state.sequence import Items
from ...domain.clock import exact
from ...domain.concurrency.locks import cached_property
from ...domain.context.address import parse_moment, resolve_version
from ...domain.context.decider import Decider
from ...domain.context.description import Departure
from ...domain.context.folded_stream import FoldedStream, Place
from ...domain.ids import split_stream_id
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.pool.events import BranchedEvent
from ...domain.spans import Ref
from ...domain.totals import total_of
from ...domain.trajectory.identity import run_id_of
from ..context_streams import stream_named
from ..queries.origins import Item, event_at, first_events
from ..store import Store
from .shapes import Entry, Shape, item_shape

if TYPE_CHECKING:
    from ...domain.memory import state as memories
    from ...domain.pool import state as containers
    from ...domain.trajectory.run import Run
    from ...domain.window import state as windows

LOOKED_BACK_FIRST = 64


class View:
    """A context of any kind at one version; `head` is the newest one."""

    def __init__(self, log: Log, stream: str, version: int, head: int) -> None:
        self.log, self.stream, self.version, self.head = log, stream, version, head


class ItemView(View):
    """A context that holds items, at one version."""

    @property
    def tokens(self) -> int:
        """The estimated tokens of the items."""
        raise NotImplementedError

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the context; empty for a kind that has none."""
        return {}

    def entries(self, *, tail: int | None = None, skip: int = 0) -> list[Entry]:
        """Return the items, or the last `tail` of them, without the last `skip`."""
        raise NotImplementedError

    @property
    def evicted_count(self) -> int:
        """The number of items that left and are not back."""
        return len(self._gone)

    def evicted(self, *, tail: int | None = None, skip: int = 0) -> list[tuple[Entry, Departure]]:
        """
        Return the items that left and are not back, the first to leave first, each with how it left; or the last `tail`
        of them, without the last `skip`.
        """
        gone = self._gone[_tail_slice(len(self._gone), tail, skip)]
        entries = self._entries([item for item, _ in gone])
        return [(entry, how) for entry, (_, how) in zip(entries, gone, strict=True)]

    @cached_property
    def _gone(self) -> Sequence[tuple[Any, Departure]]:
        """The items that left and are not back, in the order in which they left, each with how it left."""
        raise NotImplementedError

    def _entries(self, items: Sequence[Any]) -> list[Entry]:
        raise NotImplementedError


class ChatItemView(ItemView):
    """A chat at one version."""

    def __init__(self, log: Log, chat: ChatContext, version: int) -> None:
        super().__init__(log, f"chat:{chat.id}", version, chat.version)
        self.chat = chat.at(version)

    @property
    def tokens(self) -> int:
        return self.chat.estimated_tokens()

    def entries(self, *, tail: int | None = None, skip: int = 0) -> list[Entry]:
        """Return the items, or the last `tail`; if nothing was edited there, earlier events are not read."""
        found = None if tail is None or skip else _last_added(self.log, self.stream, self.version, tail)
        if found is not None:
            entries = [Entry(recorded.event, recorded, self.stream) for recorded in found]
            return _with_pending(entries, (entry.item for entry in entries))
        items = self._items.read() if tail is None else self._items
        order = items.order()
        shown = _tail_slice(len(order), tail, skip)
        item_table, ordinals = items.item_table, order[shown.start :]
        item_table.fetch(ordinals)
        return _with_pending(self._entries(order[shown]), (item_table.items[ordinal] for ordinal in ordinals))

    def entries_of(self, item_ids: Sequence[str]) -> list[Entry]:
        """Return items that the chat ever had, by their ids."""
        ordinals = [self._items.ordinal(item_id) for item_id in item_ids]
        return self._entries([ordinal for ordinal in ordinals if ordinal is not None])

    @property
    def _items(self) -> Items:
        """The items of the version; of a chat with a snapshot, those that are looked at are read."""
        return self.chat._state.items

    @cached_property
    def _gone(self) -> Sequence[tuple[int, Departure]]:
        return self._items.departed()

    def _entries(self, ordinals: Sequence[int]) -> list[Entry]:
        items = self._items
        items.item_table.fetch(ordinals)
        refs = [items.ref(ordinal).within(self.stream) for ordinal in ordinals]
        born = first_events(self.log, refs)
        return [
            Entry(
                items.item_table.items[ordinal],
                born[ref],
                self.stream,
                items.is_pinned(ordinal),
                approval=items.approval(ordinal),
            )
            for ordinal, ref in zip(ordinals, refs, strict=True)
        ]


def _tail_slice(length: int, tail: int | None, skip: int) -> slice:
    """Return the slice of the last `tail` items of a list, or of all its items, without the last `skip`."""
    end = max(0, length - skip)
    return slice(0 if tail is None else max(0, end - tail), end)


def _with_pending(entries: list[Entry], later: Iterable[Item]) -> list[Entry]:
    """
    Return entries of a chat, the calls without an output marked.

    `later` are the items from the first entry to the end of the chat: an output follows its call, so it is among them.
    """
    output_of = pair_calls(item for item in later if isinstance(item, ChatItemEvent)).output_of
    return [
        entry._replace(is_pending=isinstance(entry.item, FunctionCalled) and index not in output_of)
        for index, entry in enumerate(entries)
    ]


def _last_added(log: Log, stream: str, version: int, count: int) -> list[RecordedEvent] | None:
    """Return the events of the last items; None if there is an edit among them, so that all events are needed."""
    added: list[RecordedEvent] = []
    looked_back, until = LOOKED_BACK_FIRST, version
    while until and len(added) < count:
        after = max(0, until - looked_back)
        events = log.read(stream, after=after, until=until)
        if not all(isinstance(recorded.event, (*ITEM_EVENTS, Named, Opened, StateSaved)) for recorded in events):
            return None
        added[:0] = [recorded for recorded in events if isinstance(recorded.event, ITEM_EVENTS)]
        until, looked_back = after, looked_back * 2
    return added[-count:]


class FoldedItemView(ItemView):
    """A context at one version; events are only read when they are needed."""

    def __init__(self, log: Log, stream: str, version: int) -> None:
        super().__init__(log, stream, version, log.head(stream))

    @cached_property
    def state(self) -> Any:
        """The folded state, from a snapshot and the events after it if there is one."""
        place = Place(self.stream, self.stream)
        return FoldedStream(self.log, place, self._decider(), version=self.head).recorded_past(self.version)

    def _decider(self) -> Decider[Any]:
        raise NotImplementedError

    @property
    def names(self) -> dict[str, int]:
        """The versions that had a name by then, by name."""
        names: dict[str, int] = self.state.names
        return names

    def entries(self, *, tail: int | None = None, skip: int = 0) -> list[Entry]:
        held = self._present_items()
        return self._entries(held[_tail_slice(len(held), tail, skip)])

    def _present_items(self) -> list[tuple[Ref, Item]]:
        """Return the items in order, each with its origin."""
        raise NotImplementedError

    def _events(self) -> list[Any]:
        return self.log.read_events(self.stream, until=self.version)

    def _entries(self, items: Sequence[tuple[Ref, Item]]) -> list[Entry]:
        refs = [ref.within(self.stream) for ref, _ in items]
        born = first_events(self.log, refs)
        return [Entry(item, born[ref], self.stream) for (_, item), ref in zip(items, refs, strict=True)]


class ContainerItemView(FoldedItemView):
    """A queue or a pool at one version."""

    state: containers.ContainerState

    def _decider(self) -> Decider[containers.ContainerState]:
        from ...domain.pool.rules import POOLS, QUEUES

        return POOLS if split_stream_id(self.stream)[0] == "pool" else QUEUES

    @property
    def tokens(self) -> int:
        return total_of(self.state.items.values()).tokens

    @property
    def settings(self) -> dict[str, Any]:
        return {"limit": self.state.limit, "tags": list(self.state.tags)}

    def _present_items(self) -> list[tuple[Ref, Item]]:
        return [(held.ref, held.event) for held in self.state.items.values()]

    @cached_property
    def _gone(self) -> list[tuple[tuple[Ref, Item], Departure]]:
        from ...domain.pool import state as containers

        departures = containers.Departures(self.stream)
        departures.go_on(containers.complete(self.log, self._events()))
        return [((ref, one.held.event), one) for ref, one in departures.gone().items()]


class WindowItemView(FoldedItemView):
    """A window at one version."""

    state: windows.WindowState

    def _decider(self) -> Decider[windows.WindowState]:
        from ...domain.window.rules import WINDOWS

        return WINDOWS

    @property
    def tokens(self) -> int:
        return self.state.tokens

    @property
    def settings(self) -> dict[str, Any]:
        from ...domain.window.events import settings_of

        return settings_of(self.state)

    def _present_items(self) -> list[tuple[Ref, Item]]:
        return [(Ref(held.version), held.event) for held in self.state.held.in_order()]

    @cached_property
    def _gone(self) -> list[tuple[tuple[Ref, Item], Departure]]:
        from ...domain.window.state import Departures as WindowDepartures

        departures = WindowDepartures(self.stream, self._events())
        left = [(one.born, Departure(one.how, one.reason, one.version)) for one in departures.evicted()]
        left += [(one.born, Departure("drop", one.reason, one.version)) for one in departures.dropped()]
        refs = [Ref.parse(born) for born, _ in left]
        born = first_events(self.log, refs)
        return [((ref, born[ref].event), how) for ref, (_, how) in zip(refs, left, strict=True)]


class MemoryItemView(FoldedItemView):
    """A scope of a memory at one version; the record that was remembered last is the last one."""

    state: memories.MemoryState

    def _decider(self) -> Decider[memories.MemoryState]:
        from ...domain.memory.rules import MEMORIES

        return MEMORIES

    @property
    def tokens(self) -> int:
        return total_of(self.state.records.values()).tokens

    def _present_items(self) -> list[tuple[Ref, Item]]:
        return [(Ref(held.version), held.event) for held in reversed(self.state.newest_first())]

    @cached_property
    def _gone(self) -> list[tuple[tuple[Ref, Item], Departure]]:
        from ...domain.memory.state import forgotten

        left = forgotten(self._events(), self.stream, None)
        left.sort(key=lambda one: one[1].version)
        return [((Ref(held.version), held.event), how) for held, how in left]


FOLDED: dict[str, type[FoldedItemView]] = {
    "queue": ContainerItemView,
    "pool": ContainerItemView,
    "window": WindowItemView,
    "memory": MemoryItemView,
}


class RunView(View):
    """A run at one version."""

    def __init__(self, log: Log, run: Run, version: int) -> None:
        super().__init__(log, run.stream_id, version, run.version)
        self.run = run.at(version)


def view_at(store: Store, address: str) -> ItemView | RunView:
    """
    Return the context of `CTX` or `CTX@V` as it was then.

    Raises:
        InvalidInputError: the address is none of these, or a range.
        NotFoundError: there is no such context, version or name.
    """
    found = parse_moment(address)
    return view_of(store, stream_named(store.log, found.context), found.moment)


def view_of(store: Store, stream: str, moment: str | None) -> ItemView | RunView:
    """
    Return the context of a stream, at a moment or at its present version.

    Raises:
        NotFoundError: there is no such version or name.
    """
    kind, context_id = split_stream_id(stream)
    if kind == "chat":
        chat = store.chat(context_id, create=False)
        return ChatItemView(store.log, chat, chat.version if moment is None else chat.version_at(moment))
    if kind == "run":
        run = store.run(*run_id_of(context_id), create=False)
        return RunView(store.log, run, run.version if moment is None else run.version_at(moment))
    now = FOLDED[kind](store.log, stream, store.log.head(stream))
    if moment is None:
        return now
    version = resolve_version(store.log, stream, moment, head=now.version, names=lambda: now.names)
    return now if version == now.version else FOLDED[kind](store.log, stream, version)


def head_shape(view: View) -> Shape:
    """Return a version of a context for JSON: its time, and who opened the context, without its items."""
    kind, context = split_stream_id(view.stream)
    first, last = event_at(view.log, view.stream, 1), event_at(view.log, view.stream, view.version)
    began = first.event if first is not None else None
    # The first event may be of another type, where a field of this name has another meaning.
    given = {field: getattr(began, field, None) for field in ("user", "session", "agent", "source")}
    texts = {field: text if isinstance(text, str) else None for field, text in given.items()}
    parent = f"{began.parent}@{began.version}" if isinstance(began, Forked | BranchedEvent) else None
    attributes = parse_json(began.attributes) if isinstance(began, Opened) else None
    return {
        "context": context,
        "kind": kind,
        "version": view.version,
        "head": view.head,
        "at": exact(last.recorded_at) if last else None,
        "opened": {**texts, "parent": parent, "attributes": attributes},
    }


def entry_shapes(entries: Iterable[Entry], left: Iterable[Departure] | None = None) -> list[Shape]:
    """Return items for JSON; of items that left, with `left`, also how each left."""
    if left is None:
        return [item_shape(entry) for entry in entries]
    return [
        {**item_shape(entry), "left": {"how": how.how, "reason": how.reason, "version": how.version}}
        for entry, how in zip(entries, left, strict=True)
    ]
