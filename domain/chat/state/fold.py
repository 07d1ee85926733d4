"""
The folded state of a chat context, and the fold.

A state is a value: it never changes, and the cost of appending to it does not depend on its length. While many events
are folded, a builder owns the items that it changes, so that the cost of ten thousand edits depends only on the items
that they touch. Totals are added up at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Never

import msgspec
from msgspec.structs import replace

from ...canonical import parse_json
from ...errors import InvalidInputError
from ...named_events import Resolved, recorded_event
from ...spans import Ref, Segment, Span, refs_of
from ...totals import Totals
from .. import events as chat
from ..describe import left_by
from ..pairing import Approval, approval_by
from ..pieces import written
from .edits import Edits, Gone
from .item_table import totals_of
from .sequence import Items

ITEM_TYPES = frozenset(chat.ITEM_EVENTS)


class ReferencedItem(msgspec.Struct, frozen=True):
    """An item of another stream, with its name in the event that refers to it."""

    ref: Ref
    item: chat.ChatItemEvent


class ChatState(msgspec.Struct, frozen=True, kw_only=True):
    """
    The state of a chat context at one version.

    `names` maps a name to its version. `merged` maps a stream and a kind of merge to the version that was merged.
    `ancestry` is the lineage of a fork, its parent last.
    """

    version: int = 0
    opened: chat.Opened | chat.Forked | None = None
    items: Items = msgspec.field(default_factory=Items)
    names: dict[str, int] = msgspec.field(default_factory=dict)
    merged: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)
    ancestry: tuple[Segment, ...] = ()


EMPTY = ChatState()
# The events of a chat in the form that `fold` takes: merges and forks come with the items of other streams they name.
Completed = chat.ChatEvent | Resolved[ReferencedItem]


def fold(state: ChatState, events: Iterable[Completed]) -> ChatState:
    """
    Return the state after `events`, which are history and therefore not checked.

    A fork is folded after its parent's events: its own versions begin with 1 again. A merge, and a fork that carried a
    part, are given as `Resolved`.
    """
    if isinstance(events, tuple) and len(events) == 1:
        event = events[0]
        if type(event) in ITEM_TYPES:
            return _appended(state, events)  # type: ignore[arg-type]  # mypy does not narrow by membership
        if isinstance(event, chat.Forked) and event.carried is None and event.config is None:
            return _forked(state, event)
    step = _Fold(state)
    version, row = state.version, step.row
    for event in events:
        version += 1
        if type(event) in ITEM_TYPES:
            row.append(event)  # type: ignore[arg-type]  # mypy does not narrow by membership
        else:
            step.put_row(version)
            version = step.apply(event, version)
    step.put_row(version + 1)
    return step.state(version)


def _appended(state: ChatState, item: tuple[chat.ChatItemEvent]) -> ChatState:
    """By far the most frequent step. A caller waits for it, so it has its own path."""
    version = state.version + 1
    items = state.items.plus(item, version)
    return replace(state, version=version, items=items)


def _forked(state: ChatState, event: chat.Forked) -> ChatState:
    """The first step of every fork that carries everything. A caller waits for it, so it has its own path."""
    items = state.items.forked(event.parent, is_borrowed=bool(state.items.reach))
    return ChatState(version=1, opened=event, items=items, ancestry=event.lineage)


class _Fold:
    """A fold in progress: a state, and what events after it changed of its items. Plain appends wait in `row`."""

    def __init__(self, state: ChatState) -> None:
        # Everything in it is up to date except the version and the items.
        self._state = state
        self._from = self._items = state.items
        # An item table that was created here has no other owner, even after several forks.
        self._is_own = not state.items.reach
        self._edits: Edits | None = None
        self._change = Totals()
        # Pieces of messages, each with its version, by ordinal: a text is put together once, not at every piece.
        self._pieces: dict[int, list[tuple[int, chat.Piece]]] = {}
        self.row: list[chat.ChatItemEvent] = []

    def put_row(self, version: int) -> None:
        """Put the items of the row, which ended directly before `version`, at the end."""
        if self.row:
            self._items = self._items.plus(self.row, version - len(self.row))
            self.row.clear()

    def state(self, version: int) -> ChatState:
        return replace(self._state, version=version, items=self._built())

    def _built(self) -> Items:
        self._put_pieces()
        if self._edits is None:
            return self._items
        count = self._items.reach
        known = self._from.known_totals() if self._are_counted else None
        basis = None
        if known is not None:
            basis = (count, known + self._items.total_of(range(self._from.reach, count)) + self._change)
        return self._items.edited(self._edits, basis)

    def apply(self, event: Completed, version: int) -> int:
        """Apply an event other than a plain append; return its version in its own stream."""
        taken = event.taken if isinstance(event, Resolved) else ()
        recorded: chat.OtherEvent = recorded_event(event)
        match recorded:
            case chat.Opened():
                self._state = replace(self._state, opened=recorded)
            case chat.Named():
                self._state = replace(self._state, names={**self._state.names, recorded.name: recorded.version})
            case chat.MessageExtended() | chat.MessageFinished():
                self._write(recorded, version)
            case chat.Forked():
                self._fork(recorded, taken)
                return 1
            case chat.Merged():
                self._merge(recorded, taken, version)
            case chat.ItemInserted() | chat.InstructionsReplaced() | chat.Summarized():
                self._insert(recorded.item, version, recorded.before)
            case chat.ApprovalRequested() | chat.CallApproved() | chat.CallRejected():
                self._approve([self._items.of_ref(recorded.call)], approval_by(recorded, version))
            case chat.CallChanged():
                self._insert(recorded.item, version, recorded.before)
                both = [*self._items.of_spans(recorded.replaced), self._items.reach - 1]
                self._approve(both, approval_by(recorded, version))
            case chat.ItemsRestored() | chat.SummaryUndone():
                self._show(recorded.items)
            case chat.ItemsPinned() | chat.ItemsUnpinned():
                self._pin(recorded.items, is_pinned=isinstance(recorded, chat.ItemsPinned))
            case chat.ItemsEvicted() | chat.Cleared() | chat.StateSaved() | chat.ConflictResolved():
                pass  # The former two take items out, as below. The latter two leave the view as it is.
            case _:
                _: Never = recorded  # A type checker sees to it that each event is named. Others are passed over.
        left = left_by(recorded)
        if left is not None:
            summary = self._items.reach - 1 if isinstance(recorded, chat.Summarized) else None
            self._hide(left.items, Gone(left.how, left.reason, version, summary))
        return version

    def _fork(self, event: chat.Forked, taken: tuple[ReferencedItem, ...]) -> None:
        self._state = ChatState(opened=event, ancestry=event.lineage)
        if event.carried is None:
            self._items = self._from = self._built().forked(event.parent, is_borrowed=not self._is_own)
            self._edits, self._change = None, Totals()
        else:
            self._items = self._from = Items()
            self._edits, self._change, self._pieces = None, Totals(), {}
            self._take(taken, 1)
            self._pin(event.pinned, is_pinned=True)
        if event.config is not None:
            self._items = self._items.plus((event.config,), 1)

    def _merge(self, event: chat.Merged, taken: tuple[ReferencedItem, ...], version: int) -> None:
        ordinal = self._items.reach
        if event.agent_id is None:
            self._take(taken, version)
        else:
            # With another agent's id the item is a new one, which this event created.
            self._items = self._items.plus([one.item for one in taken], version)
        for placement in event.placed:
            for _ in refs_of(placement.items):
                if placement.before is not None:
                    self._place(ordinal, placement.before)
                ordinal += 1
        merged = {**self._state.merged, (event.source, event.how): event.version}
        self._state = replace(self._state, merged=merged)

    def _take(self, taken: Iterable[ReferencedItem], version: int) -> None:
        """Put items of other streams at the end; `version` of the own stream takes them."""
        item_table = self._items.own_item_table()
        item_table.take(len(self._items.lineage), version)
        for one in taken:
            if isinstance(one.item, chat.MessageAdded) and one.item.until:
                item_table.until[len(item_table.items)] = 0
            item_table.extend((one.item,), one.ref.stream, one.ref.version)
        self._items = self._items.extended(item_table)

    def _insert(self, item: chat.ChatItemEvent, version: int, before: Ref) -> None:
        self._items = self._items.plus((item,), version)
        self._place(self._items.reach - 1, before)

    def _place(self, ordinal: int, before: Ref) -> None:
        anchor = self._items.of_ref(before)
        if anchor is not None:
            self._own_edits().place(ordinal, anchor)

    def _hide(self, spans: Iterable[Span] | None, gone: Gone) -> None:
        ordinals = range(self._items.reach) if spans is None else self._items.of_spans(spans)
        self._put_pieces()
        self._count(self._own_edits().hide(ordinals, gone), -1)

    def _show(self, spans: Iterable[Span]) -> None:
        ordinals = self._items.of_spans(spans)
        self._put_pieces()
        self._count(self._own_edits().show(ordinals), 1)

    def _pin(self, spans: Iterable[Span], *, is_pinned: bool) -> None:
        ordinals, pinned = self._items.of_spans(spans), self._own_edits().pinned
        for ordinal in ordinals:
            if is_pinned:
                pinned[ordinal] = True
            else:
                pinned.pop(ordinal)

    def _approve(self, calls: Iterable[int | None], approval: Approval) -> None:
        for ordinal in calls:
            if ordinal is not None:
                self._own_edits().approvals[ordinal] = approval

    def _own_edits(self) -> Edits:
        if self._edits is None:
            self._edits = self._items.edits.copied() if self._items.edits else Edits()
            # From here on the old order is invalid, so `Items` starts without it.
            self._items = self._items.edited(self._edits)
        return self._edits

    # Messages that are written piece by piece, and totals

    def _write(self, piece: chat.Piece, version: int) -> None:
        ordinal = self._items.of_ref(piece.item)
        if ordinal is not None and isinstance(self._items.item(ordinal), chat.MessageAdded):
            self._pieces.setdefault(ordinal, []).append((version, piece))

    def _put_pieces(self) -> None:
        if not self._pieces:
            return
        changed: dict[int, chat.MessageAdded] = {}
        for ordinal, pieces in self._pieces.items():
            message = self._items.item(ordinal)
            assert isinstance(message, chat.MessageAdded), "only a message is written piece by piece"
            changed[ordinal] = written(message, pieces)
        self._pieces = {}
        if self._is_own:
            for ordinal, item in changed.items():
                self._items.item_table.items[ordinal] = item
                self._items.item_table.until[ordinal] = 0
            return
        if self._are_counted:
            # `_built` counts the items that came in this fold as they are then, whether they left or not.
            for ordinal, item in changed.items():
                is_new = ordinal >= self._from.reach
                if is_new != self._items.shows(ordinal):
                    change = totals_of(item) - totals_of(self._items.item(ordinal))
                    self._change += -change if is_new else change
        self._items = self._items.rewritten(changed)

    @property
    def _are_counted(self) -> bool:
        """Whether totals are kept up to date. While loading they were not requested yet, so nothing is added up."""
        return bool(self._from.reach) and self._from.are_counted

    def _count(self, ordinals: list[int], sign: int) -> None:
        if self._are_counted:
            change = self._items.total_of(ordinals)
            self._change += change if sign > 0 else -change


class Config(NamedTuple):
    """
    The configuration in force: instructions, names of tools, the definitions that these have, by name, and settings.
    """

    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    tool_schemas: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}


def active_config(items: Iterable[chat.ChatItemEvent]) -> Config:
    """
    Return the configuration in force after `items`; the last one wins, of any kind.

    Settings are merged by name. A tool that is only named keeps the definition that it had.
    """
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    schemas: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for item in items:
        if type(item) is chat.MessageAdded and item.role in chat.INSTRUCTION_ROLES:
            instructions = " ".join(part for part in item.parts if isinstance(part, str))
        elif type(item) is chat.ConfigUpdated:
            instructions = item.instructions if item.instructions is not None else instructions
            tools = item.tools if item.tools is not None else tools
            if item.tool_schemas:
                schemas |= parse_json(item.tool_schemas)
            if item.settings:
                settings |= parse_json(item.settings)
    known = {name: schemas[name] for name in tools or () if name in schemas}
    return Config(instructions, tools, known, {name: value for name, value in settings.items() if value is not None})


def tool_definitions(tools: Any) -> tuple[Any, dict[str, Any]]:
    """
    Return the names of tools, and the definitions among them by name; what is no list or tuple is returned as it is.

    A tool that a provider runs itself may have only a type, which is its name then.

    Raises:
        InvalidInputError: a definition has no name, or two have the same one.
    """
    if not isinstance(tools, list | tuple):
        return tools, {}
    names: list[Any] = []
    schemas: dict[str, Any] = {}
    for tool in tools:
        name = tool
        if isinstance(tool, Mapping):
            inner = tool.get("function", tool)
            name = (inner.get("name") or inner.get("type")) if isinstance(inner, Mapping) else None
            if not isinstance(name, str) or name in schemas:
                fault = "has no name" if not isinstance(name, str) else "has the name of another one"
                raise InvalidInputError(f"the tool {dict(tool)!r} {fault}")
            schemas[name] = dict(tool)
        names.append(name)
    return tuple(names), schemas
