"""
The items that a fork carries over from its parent: all, the last turns, none, or those that pass a filter.

A call and its output are never separated, and the instructions and tools in force are carried over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from ...arguments import require_several, require_whole
from ...canonical import canonical_json, require_unicode
from ...errors import InvalidInputError
from ...named_events import Resolved
from ...spans import Segment, refs_of
from .. import events as chat
from ..pairing import pair_calls
from ..state.fold import ChatState, ReferencedItem, active_config
from ..state.item_table import totals_of
from ..state.loading import tail_of
from ..state.sequence import Items


def tool_names(tools: Iterable[Any] | None) -> frozenset[str] | None:
    """
    Return the names of tools, or None for all. A tool is a text or an object with `_tool_info`, also a method; others
    are ignored.
    """
    if tools is None:
        return None
    given = [tools] if isinstance(tools, str) else require_several(tools, "the tools")
    names = (tool if isinstance(tool, str) else _name_of(tool) for tool in given)
    return frozenset(name for name in names if name is not None)


def _name_of(tool: Any) -> str | None:
    function = getattr(tool, "__func__", tool)
    name = getattr(getattr(function, "_tool_info", None), "name", None)
    return name if isinstance(name, str) else None


class Parent(msgspec.Struct, frozen=True):
    """The context to be forked: its stream, its state at the version to fork, and the root that decides the slice."""

    stream: str
    state: ChatState
    root: str


class Copying(msgspec.Struct, frozen=True, kw_only=True):
    """The filter of `copy`: which items are left out. `tools` are the names of tools to keep, or None for all."""

    exclude_system_messages: bool = False
    exclude_instructions: bool = False
    exclude_empty_messages: bool = False
    exclude_handoffs: bool = False
    exclude_config_updates: bool = False
    tools: frozenset[str] | None = None
    filter_agent_id: str | None = None

    def keeps(self, item: chat.ChatItemEvent) -> bool:
        """Return whether an item is carried over."""
        match item:
            case chat.MessageAdded():
                return self._keeps_message(item)
            case chat.FunctionCalled() | chat.FunctionReturned():
                return (self.tools is None or item.name in self.tools) and self._is_of_agent(item)
            case chat.HandedOff():
                return not self.exclude_handoffs
            case chat.ConfigUpdated():
                return not self.exclude_config_updates

    def _keeps_message(self, item: chat.MessageAdded) -> bool:
        if chat.is_instructions(item):
            excluded = self.exclude_instructions or (self.exclude_system_messages and item.role == "system")
        else:
            excluded = not self._is_of_agent(item)
        return not excluded and not (self.exclude_empty_messages and _is_empty(item))

    def _is_of_agent(self, item: chat.ChatItemEvent) -> bool:
        return self.filter_agent_id is None or item.agent_id == self.filter_agent_id


def _is_empty(item: chat.MessageAdded) -> bool:
    return not any(part.strip() if isinstance(part, str) else True for part in item.parts)


def matching(items: Items, keeps: Callable[[chat.ChatItemEvent], bool]) -> list[int]:
    """Return the ordinals of the items that pass, in order; an output passes exactly if its call does."""
    order = list(items.order())
    passing = {place for place, ordinal in enumerate(order) if keeps(items.item_table.items[ordinal])}
    for call, output in pair_calls(items).output_of.items():
        (passing.add if call in passing else passing.discard)(output)
    return [order[place] for place in sorted(passing)]


def items_of_turns(items: Items, turns: int, keeps: Callable[[chat.ChatItemEvent], bool]) -> list[int]:
    """
    Return the ordinals of all instructions, then of everything from the `turns`-th last user message on.

    Raises:
        InvalidInputError: `turns` is less than 1.
    """
    if require_whole(turns, "recent_turns", least=None) < 1:
        raise InvalidInputError("recent_turns must be >= 1")
    order = items.order()
    users = [place for place, item in enumerate(items) if chat.is_user(item)]
    cut = users[-turns] if len(users) > turns else 0
    # Without its call, the output of an earlier call would be alone in the fork.
    late = {order[output] for call, output in pair_calls(items).output_of.items() if call < cut}
    passing = matching(items, keeps)
    instructions = [o for o in passing if chat.is_instructions(items.item_table.items[o])]
    left_out = late.union(order[:cut], instructions)
    return instructions + [o for o in passing if o not in left_out]


def carried_config(
    items: Items, carried: Sequence[int], *, item_id: str, created_at: float
) -> chat.ConfigUpdated | None:
    """
    Return the item that sets the parent's configuration in a fork.

    None if the carried items set them already.
    """
    wanted = active_config(items)
    found = active_config(items.item_table.items[ordinal] for ordinal in carried)
    if wanted == found:
        return None
    is_other_tool = (wanted.tools, wanted.tool_schemas) != (found.tools, found.tool_schemas)
    settings = {
        name: wanted.settings.get(name)
        for name in {**found.settings, **wanted.settings}
        if wanted.settings.get(name) != found.settings.get(name)
    }
    return chat.ConfigUpdated(
        id=item_id,
        created_at=created_at,
        instructions=wanted.instructions if wanted.instructions != found.instructions else None,
        tools=wanted.tools if is_other_tool else None,
        tool_schemas=canonical_json(wanted.tool_schemas, what="tools")
        if is_other_tool and wanted.tool_schemas
        else b"",
        settings=canonical_json(settings, what="settings") if settings else b"",
    )


def forked_from(
    parent: Parent,
    *,
    how: str,
    agent: str | None,
    carried: Sequence[int] | None = None,
    config: chat.ConfigUpdated | None = None,
) -> chat.Forked | Resolved[ReferencedItem]:
    """Return the first event of a child of `parent`; `carried` are ordinals of the parent, None means all."""
    state, items = parent.state, parent.state.items
    opened = state.opened
    own = Segment(parent.stream, state.version)
    change = items.totals if carried is None else items.total_of(carried)
    named = None if carried is None else items.spans(carried, own=parent.stream)
    taken = list(zip(refs_of(named or ()), map(items.item_table.items.__getitem__, carried or ()), strict=True))
    event = chat.Forked(
        parent=parent.stream,
        version=state.version,
        lineage=(*state.ancestry, own),
        root=parent.root,
        how=how,
        carried=named,
        pinned=items.spans([o for o in carried if items.is_pinned(o)], own=parent.stream) if carried else (),
        config=config,
        change=change + totals_of(config) if config else change,
        user=opened.user if opened else None,
        session=opened.session if opened else None,
        agent=require_unicode(agent, "the agent") if agent else (opened.agent if opened else None),
        tail=tail_of(items, own=parent.stream) if carried is None else None,
        extents=chat.extents_of(taken),
    )
    if carried is None:
        return event
    return Resolved(event, tuple(ReferencedItem(ref, item) for ref, item in taken))
