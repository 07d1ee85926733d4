"""
The list of public items that a context shows. In a long chat that was opened from a snapshot, items that nobody looked
at are still in the log: the list holds an unread item for each, which is read at its first use.

The class of an unread item is a subclass of the item's class. At the first access to an attribute the object reads its
event, and its class becomes the item's class. So code in C that reads the memory of a list, such as pydantic's, finds
an item in each place. The methods of the list read items before they return them: their types are right at once.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from operator import call
from typing import Any, cast
from weakref import ReferenceType, ref

from pydantic import BaseModel

from ..concurrency.collector import uncollected
from ..frozen import PARTLY_READ, FrozenList
from .item_conversion import MODEL_FIELDS, fields_of, item_of
from .items import AgentConfigUpdate, AgentHandoff, ChatItem, ChatMessage, FunctionCall, FunctionCallOutput
from .state.item_table import ItemTable
from .state.sequence import Items
from .state.unread_items import StoredItems

# Up to FEW versions of items are looked up one by one; up to READ_APART_MAX items are read one by one.
FEW, READ_APART_MAX = 64, 8
# At most this many events are read for each item that is wanted.
GAP_MAX = 4
# A loop over a list reads this many items at first, and doubles the number each time, up to the maximum.
FIRST_READ, READ_MAX = 64, 8_192
# The number of unread items that are made at a time.
MADE_AT_ONCE = 2_048
# The slots of a pydantic model. Those of an unread item hold the items of its context and its ordinal.
_slots = [
    BaseModel.__dict__[slot]
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
]
_put_fields, _put_names, _put_source, _put_ordinal = (slot.__set__ for slot in _slots)
_fields_of, _, _source_of, _ordinal_of = (slot.__get__ for slot in _slots)
_item_at = list.__getitem__


class UnreadMessage(ChatMessage):
    """A message that is still in the log."""


class UnreadCall(FunctionCall):
    """A call that is still in the log."""


class UnreadOutput(FunctionCallOutput):
    """The output of a call that is still in the log."""


class UnreadHandoff(AgentHandoff):
    """A handoff that is still in the log."""


class UnreadConfig(AgentConfigUpdate):
    """A change of the configuration that is still in the log."""


# In the order of `ITEM_EVENTS`. To call `__getitem__` of a list takes two thirds of the time of a tuple's.
UNREAD: list[type[BaseModel]] = [UnreadMessage, UnreadCall, UnreadOutput, UnreadHandoff, UnreadConfig]
_class_of_kind = UNREAD.__getitem__
_ARE_UNREAD = frozenset(UNREAD)


def _attribute(item: Any, name: str) -> Any:
    return getattr(_read(item), name)


def _forward(name: str) -> Any:
    # Python looks these methods up in the class, past `__getattribute__`.
    def call(item: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_read(item), name)(*args, **kwargs)

    return call


_FORWARDED = (
    "__eq__", "__ne__", "__hash__", "__repr__", "__str__", "__format__", "__iter__", "__copy__", "__deepcopy__",
    "__replace__", "__setattr__", "__delattr__", "__reduce__", "__reduce_ex__", "__getstate__", "__dir__",
    "__rich_repr__", "__pretty__",
)  # fmt: skip
for _model in UNREAD:
    type.__setattr__(_model, "__getattribute__", _attribute)
    for _name in _FORWARDED:
        type.__setattr__(_model, _name, _forward(_name))


def _read(item: Any) -> Any:
    """Read an item, and return it; once it is read, this does nothing."""
    if type(item) not in _ARE_UNREAD:
        return item
    source, ordinal = _source_of(item), _ordinal_of(item)
    # Fields that are there already were set by another thread, or by a call that was interrupted.
    if not _fields_of(item) and source is not None and ordinal is not None:
        _put_fields(item, fields_of(source.item_table.items[ordinal], source.arrival(ordinal)))
    return _settle(item)


def _settle(item: Any) -> Any:
    """Give an item whose fields are set its final class; a second call does no harm."""
    model, names = MODEL_FIELDS[_fields_of(item)["type"]]
    _put_names(item, names)
    _put_source(item, None)
    _put_ordinal(item, None)
    object.__setattr__(item, "__class__", model)
    return item


def _read_all(items: Sequence[Any]) -> None:
    """Read the unread ones among these items, all of one context."""
    unread = [item for item in items if type(item) in _ARE_UNREAD]
    # An item without an ordinal or a source is being read by another thread.
    placed = [(ordinal, item) for item in unread if (ordinal := _ordinal_of(item)) is not None]
    source = _source_of(placed[0][1]) if placed else None
    if source is not None:
        first, last = min(placed)[0], max(placed)[0]
        # Items that were inserted are far from their neighbours in the log.
        if len(placed) > READ_APART_MAX and last - first < GAP_MAX * len(placed):
            events = source.item_table.items[first : last + 1]
            arrivals = list(islice(source.arrivals(first), last + 1 - first))
            for ordinal, item in placed:
                if _source_of(item) is source and not _fields_of(item):
                    _put_fields(item, fields_of(events[ordinal - first], arrivals[ordinal - first]))
    for item in unread:
        _read(item)


def _unread(source: Items, ordinals: Sequence[int], kinds: Sequence[int]) -> list[Any]:
    """
    Return an unread item for each of these ordinals, given their kinds.

    There may be very many, so no step in Python is taken for each.
    """
    made: list[Any] = []
    with uncollected(len(ordinals)):
        # In batches, the new objects are still in the processor's cache: 200,000 take a fifth less time.
        for start in range(0, len(ordinals), MADE_AT_ONCE):
            some = list(map(object.__new__, map(_class_of_kind, kinds[start : start + MADE_AT_ONCE])))
            deque(map(_put_source, some, repeat(source)), 0)
            deque(map(_put_ordinal, some, ordinals[start : start + MADE_AT_ONCE]), 0)
            made += some
        # They live as long as the list. The collector would visit 200,000 twice before it counts them as old, and then
        # all objects: 11, 11 and 27 ms. These calls make them old at once. They would also unfreeze objects that the
        # program froze, so they are left out then.
        if len(made) >= MADE_AT_ONCE and not gc.get_freeze_count():
            # In one call, so that no interrupt comes in between.
            deque(map(call, (gc.freeze, gc.unfreeze)), 0)
    return made


class SeenItems(FrozenList[ChatItem]):
    """The items of a context at one version; the list knows the context, so that a live view can be made of it."""

    __slots__ = ("__weakref__", "_seen_in", "log")
    _seen_in: ReferenceType[object] | None

    def __init__(self, items: Iterable[ChatItem] = (), context: object | None = None, log: object = None) -> None:
        super().__init__(items)
        # Weakly, since the context keeps this list.
        self._seen_in = None if context is None else ref(context)
        # The log that has the unread items.
        self.log = log

    @property
    def context(self) -> object | None:
        """The context, as long as it is used; a copy of the list knows none."""
        return None if self._seen_in is None else self._seen_in()


class UnreadList(SeenItems):
    """A `SeenItems` of which some items are still in the log; once a loop has read all, its class is `SeenItems`."""

    __slots__ = ()

    def is_cached(self) -> bool:
        """Return whether the context keeps the list for its next call."""
        shown = getattr(self.context, "_shown", None)
        return isinstance(shown, ShownItems) and shown.holds(self)

    def read_all(self) -> UnreadList:
        """
        Read all items, and return the list.

        Raises:
            DamagedError: an event of an item is damaged, or is not in the log.
        """
        for _ in self:
            pass
        return self

    def __getitem__(self, index: Any) -> Any:
        found = _item_at(self, index)
        if not isinstance(index, slice):
            return _read(found)
        _read_all(found)
        return found

    def __iter__(self) -> Iterator[ChatItem]:
        start, size = 0, FIRST_READ
        while start < len(self):
            part = _item_at(self, slice(start, start + size))
            _read_all(part)
            yield from part
            start, size = start + size, min(2 * size, READ_MAX)
        object.__setattr__(self, "__class__", SeenItems)

    def __reversed__(self) -> Iterator[ChatItem]:
        for place in range(len(self) - 1, -1, -1):
            yield self[place]


def _forward_whole(name: str) -> Any:
    def call(self: UnreadList, *args: Any, **kwargs: Any) -> Any:
        return getattr(FrozenList, name)(self.read_all(), *args, **kwargs)

    return call


for _name in (
    "__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__add__", "__mul__", "__rmul__",
    "__repr__", "__reduce_ex__", "copy", "count", "index",
):  # fmt: skip
    setattr(UnreadList, _name, _forward_whole(_name))


class ShownItems:
    """The public items of a context: each is made once, when it is first shown."""

    __slots__ = ("_list", "_made")

    def __init__(self) -> None:
        # Both in one object each, since several threads may read: the list at a version, and the items by ordinal.
        self._list: tuple[Items | None, SeenItems] = (None, SeenItems())
        self._made: tuple[ItemTable | None, list[ChatItem | None]] = (None, [])

    def of(self, recorded: Items, context: object, log: object) -> SeenItems:
        """Return the items of a version; the same list as before if it is the same version. `log` has the unread."""
        seen, shown = self._list
        if recorded is not seen:
            listed, is_unread = self._listed(recorded, seen, shown), False
            if isinstance(recorded.item_table.items, StoredItems):
                listed = listed if isinstance(listed, list) else [*listed]
                is_unread = not _ARE_UNREAD.isdisjoint(map(type, listed))
            shown = UnreadList(listed, context, log) if is_unread else SeenItems(listed, context)
            if isinstance(shown, UnreadList):
                PARTLY_READ[id(shown)] = shown
            self._list = (recorded, shown)
        return shown

    def holds(self, shown: object) -> bool:
        """Return whether it keeps this list for the next call."""
        return self._list[1] is shown

    def _listed(self, recorded: Items, seen: Items | None, shown: SeenItems) -> Iterable[ChatItem]:
        events = recorded.item_table.items
        if seen is not None and recorded.continues(seen):
            ordinals = recorded.order()[len(shown) :]
            return [
                *_in_memory(shown),
                *map(item_of, map(events.__getitem__, ordinals), map(recorded.arrival, ordinals)),
            ]
        was_plain = seen is not None and seen.edits is None
        if recorded.edits is None and not was_plain and not isinstance(events, StoredItems):
            return map(item_of, recorded, recorded.arrivals())
        item_table, made = (seen.item_table, [*_in_memory(shown)]) if seen is not None and was_plain else self._made
        if item_table is not recorded.item_table:
            # An item table that continues another one has the same events, a few of them in a new form.
            known = zip(made, _in_memory(item_table.items) if item_table else (), _in_memory(events), strict=False)
            made = [item if old is new else None for item, old, new in known]
        order = recorded.order()
        if not made and isinstance(events, StoredItems) and events.is_unread(recorded.reach):
            # Nothing was made and nothing was read, as after opening: each step in Python would cost 10 ms for 200,000.
            unread, made = _all_unread(recorded, order)
            self._made = (recorded.item_table, made)
            return unread
        made += [None] * (recorded.reach - len(made))
        missing = [ordinal for ordinal in order if made[ordinal] is None]
        if isinstance(events, StoredItems):
            missing = _put_unread(recorded, events, made, missing)
        # The versions of all items are found faster than those of many, one by one.
        arrived = [*recorded.arrivals()] if len(missing) > FEW else None
        for ordinal in missing:
            made[ordinal] = item_of(events[ordinal], arrived[ordinal] if arrived else recorded.arrival(ordinal))
        self._made = (recorded.item_table, made)
        return cast(Iterable[ChatItem], map(made.__getitem__, order))


def _all_unread(recorded: Items, order: Sequence[int]) -> tuple[list[Any], list[ChatItem | None]]:
    """Return an unread item for each item of the view, and the same by ordinal."""
    kinds, made = recorded.item_table.stored_kinds(), cast(list[ChatItem | None], [None] * recorded.reach)
    runs = recorded.view_runs()
    if runs is None:
        unread = _unread(recorded, order, [kinds[ordinal] for ordinal in order])
        deque(map(made.__setitem__, order, unread), 0)
        return unread, made
    # Kinds and items are copied by runs: one by one takes 12 ms for 200,000.
    unread = _unread(recorded, order, b"".join([kinds[run.start : run.stop] for run in runs]))
    start = 0
    for run in runs:
        made[run.start : run.stop] = unread[start : start + len(run)]
        start += len(run)
    return unread, made


def _put_unread(recorded: Items, events: StoredItems, made: list[ChatItem | None], missing: Sequence[int]) -> list[int]:
    """Put an unread item in the place of each missing one whose event was not read; return those still missing."""
    read = list(_in_memory(events))
    ordinals = [ordinal for ordinal in missing if read[ordinal] is None]
    kinds = recorded.item_table.stored_kinds()
    for ordinal, item in zip(ordinals, _unread(recorded, ordinals, [kinds[one] for one in ordinals]), strict=True):
        made[ordinal] = item
    return [ordinal for ordinal in missing if made[ordinal] is None]


def _in_memory(items: list[Any]) -> Iterator[Any]:
    """Return what is in the memory of a list; an event that was not read is None there."""
    return list.__iter__(items)
