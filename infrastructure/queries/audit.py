"""
Audits: every change of a context, of its items, and of a run's nodes and steps, each with the event that made it.

The description of an event names the items that came and left. A trail reads the events in order, looks the items up,
and remembers which of them are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from ...domain.canonical import parse_json
from ...domain.chat.events import INSTRUCTION_ROLES, FunctionCalled, FunctionReturned, added_item
from ...domain.chat.state.fold import EMPTY, active_config, fold
from ...domain.chat.state.loading import complete
from ...domain.chat.state.sequence import Items
from ...domain.context.decider import trusted
from ...domain.context.description import ITSELF, Change
from ...domain.errors import NotFoundError
from ...domain.ids import split_stream_id
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.pool.state import EMPTY as EMPTY_CONTAINER
from ...domain.pool.state import complete as container_events
from ...domain.pool.state import fold as fold_container
from ...domain.positions import Position
from ...domain.spans import Ref, refs_of
from ...domain.trajectory import describe as runs
from ...domain.trajectory.events import (
    MessageRecorded,
    NodeChanged,
    NodeEvent,
    NodeRemoved,
    PortraitWritten,
    StepQueued,
    StepReturned,
    StepsCleared,
    StepTaken,
)
from ...domain.trajectory.nodes import DESCRIPTION
from ...projections.intervals import STILL_THERE
from ..log.codec import tag_of
from ..views.shapes import describe, plain_item
from .intervals import Interval
from .origins import Item, causes_of, first_events, id_of, named_so

if TYPE_CHECKING:
    from ...domain.trajectory.run import Run

CONFIG = "agent_config_update"
# An error names at most this many actors.
ACTORS_SHOWN_MAX = 10


class AuditEntry(NamedTuple):
    """
    One change: the event that made it, the item or attribute that was changed, and the values before and after.

    `ref` is the origin of the item, `name` its id or key. With `attribute` the change is of this attribute of the item,
    or of the context if there is no item. `old` and `new` are items or plain data; None means that there is no value.
    `replaced` is the origin, with its stream, of the item whose place the new one took.
    """

    recorded: RecordedEvent
    ref: Ref | None = None
    name: str | None = None
    attribute: str | None = None
    old: Any = None
    new: Any = None
    reason: str | None = None
    replaced: Ref | None = None

    @property
    def birth(self) -> str | None:
        """The origin of the item: `stream@version` of the event that first recorded it."""
        return None if self.ref is None else str(self.ref.within(self.recorded.stream))


Entries = Iterator[AuditEntry]
Reader = Callable[[Sequence[Ref]], Mapping[Ref, Item]]


class _Attributes:
    """The settings and names of a context while its events are read in order."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def entries(self, recorded: RecordedEvent, change: Change) -> Entries:
        """Yield the changes that an event made to the context itself."""
        if change.opened is not None:
            yield AuditEntry(recorded, attribute="opened", new=dict(change.opened))
        for attribute, value in change.settings.items():
            old = self._values.get(attribute)
            self._values[attribute] = value
            # The first settings are part of `opened`, and are no changes.
            if change.opened is None and old != value:
                yield AuditEntry(recorded, attribute=attribute, old=old, new=value)


class _ItemTrail:
    """
    The items of a context while its events are read in order: the present items, and all items that were met.

    `read` finds items with their origin in another context, or before the first event that is read.
    """

    def __init__(self, stream: str, read: Reader, there: Mapping[Ref, Item]) -> None:
        self.stream, self._read = stream, read
        self._there, self._known = dict(there), dict(there)
        self._attributes = _Attributes()

    def entries(self, recorded: RecordedEvent) -> Entries:
        """Yield the changes that an event made."""
        change = describe(recorded.event)
        own = Ref(recorded.version, self.stream)
        if change.opened is not None or change.settings:
            yield from self._attributes.entries(recorded, change)
        if change.facts:
            yield from self._facts(recorded, change, own)
        instead = None if change.instead is None else change.instead.within(self.stream)
        if change.left is not None:
            spans = change.left.items
            leaving = list(self._there) if spans is None else refs_of(spans)
            for ref, item in self._items(leaving):
                if ref != instead:
                    self._there.pop(ref, None)
                    yield AuditEntry(recorded, ref, id_of(item), old=item, reason=change.reason)
        by_name = {id_of(item): ref for ref, item in self._there.items()} if change.is_by_name else {}
        coming = self._items(refs_of(change.came)) if change.came else []
        if change.adds_item and isinstance(recorded.event, Item):
            # The event itself is the item, so the log need not be read for it.
            self._known[own] = recorded.event
            coming.append((own, recorded.event))
        elif change.adds_item:
            coming += self._items([own])
        for ref, item in coming:
            self._there[ref] = item
            replaced = by_name.get(id_of(item), instead)
            old = None if replaced is None else self._there.pop(replaced, None)
            yield AuditEntry(recorded, ref, id_of(item), old=old, new=item, reason=change.reason, replaced=replaced)

    def _facts(self, recorded: RecordedEvent, change: Change, own: Ref) -> Entries:
        refs = [fact.ref.within(self.stream) for fact in change.facts if fact.ref is not None and fact.name is None]
        items = dict(self._items(refs))
        for fact in change.facts:
            ref, name = own if fact.ref is ITSELF else fact.ref, fact.name
            if ref is not None and name is None:
                ref = ref.within(self.stream)
                if ref not in items:
                    continue
                name = id_of(items[ref])
            yield AuditEntry(recorded, ref, name, fact.attribute, fact.old, fact.new, fact.reason)

    def _items(self, refs: Iterable[Ref]) -> list[tuple[Ref, Item]]:
        wanted = [ref.within(self.stream) for ref in refs]
        missing = [ref for ref in wanted if ref not in self._known]
        if missing:
            self._known.update(self._read(missing))
        # The fold ignores names of items that never existed, and so does this.
        return [(ref, self._known[ref]) for ref in wanted if ref in self._known]


def context_changes(log: Log, stream: str, version: int) -> Entries:
    """
    Yield the changes of a context that holds items, and of its items, up to a version, oldest first.

    The items that a fork begins with are there before its first event, and are no changes.
    """
    with trusted(stream):
        is_chat = split_stream_id(stream)[0] == "chat"
        read = _chat_reader(log, stream, version) if is_chat else partial(_origins_read, log)
        trail = _ItemTrail(stream, read, began_with(log, stream) if version else {})
        for recorded in log.read(stream, until=version):
            yield from trail.entries(recorded)


def began_with(log: Log, stream: str) -> dict[Ref, Item]:
    """Return the items that a fork or branch began with; other contexts began with none."""
    kind = split_stream_id(stream)[0]
    if kind == "chat":
        first = chat_items(log, stream, 1)
        return {first.ref(ordinal).within(stream): first.item_table.items[ordinal] for ordinal in first.order()}
    if kind not in ("queue", "pool"):
        return {}
    state = fold_container(EMPTY_CONTAINER, container_events(log, log.read_events(stream, until=1)))
    return {held.ref.within(stream): held.event for held in state.items.values()}


def _chat_reader(log: Log, stream: str, version: int) -> Reader:
    # The chat is folded only if an event names an item that none of the events read so far has added.
    items = cache(partial(chat_items, log, stream, version))

    def read(refs: Sequence[Ref]) -> Mapping[Ref, Item]:
        held = items()
        ordinals = {ref: held.of_ref(Ref(ref.version) if ref.stream == stream else ref) for ref in refs}
        return {ref: held.item_table.items[ordinal] for ref, ordinal in ordinals.items() if ordinal is not None}

    return read


def chat_items(log: Log, stream: str, version: int) -> Items:
    """Return the items of a chat at a version, those that left it too."""
    return fold(EMPTY, complete(log, log.read_events(stream, until=version))).items


def _origins_read(log: Log, refs: Sequence[Ref]) -> Mapping[Ref, Item]:
    born = first_events(log, refs)
    return {ref: born[ref].event for ref in refs}


def config_changes(log: Log, stream: str, stays: Iterable[Interval]) -> Entries:
    """Yield the changes of a chat's configuration, oldest first, given the intervals of its items."""
    saying = [stay for stay in stays if stay.role in INSTRUCTION_ROLES or stay.type == CONFIG]
    coming, leaving = _by_version(saying, "v0"), _by_version(saying, "v1")
    versions = sorted({*coming, *leaving} - {STILL_THERE})
    recorded = first_events(log, [Ref(version, stream) for version in versions])
    born = first_events(log, {Ref.parse(stay.birth) for stay in saying})
    items = {stay.birth: added_item(born[Ref.parse(stay.birth)].event) for stay in saying}
    there: dict[int, Interval] = {}
    before: dict[str, Any] = {}
    for version in versions:
        for stay in leaving.get(version, ()):
            del there[stay.place]
        there |= {stay.place: stay for stay in coming.get(version, ())}
        shown = (items[there[place].birth] for place in sorted(there))
        config = active_config(item for item in shown if item is not None)
        tools = None if config.tools is None else list(config.tools)
        named = {"instructions": config.instructions, "tools": tools}
        now = {**named, "tool_schemas": list(config.tool_schemas.values()) or None, **config.settings}
        for attribute in {**now, **before}:
            old, new = before.get(attribute), now.get(attribute)
            if old != new:
                yield AuditEntry(recorded[Ref(version, stream)], attribute=attribute, old=old, new=new)
        before = now


def _by_version(stays: Iterable[Interval], field: Literal["v0", "v1"]) -> dict[int, list[Interval]]:
    by_version: dict[int, list[Interval]] = {}
    for stay in stays:
        by_version.setdefault(getattr(stay, field), []).append(stay)
    return by_version


def run_changes(log: Log, run: Run, version: int) -> Entries:
    """
    Yield the changes of a run and of everything in it up to a version, oldest first.

    Nodes are named without a number, because the number depends on later nodes; their origins distinguish them.
    """
    trail = _RunTrail(log, run)
    with trusted(run.stream_id):
        for recorded in log.read(run.stream_id, until=version):
            yield from trail.entries(recorded)


class _RunTrail:
    """A run while its events are read in order: the names and values of its nodes, and the waiting steps."""

    def __init__(self, log: Log, run: Run) -> None:
        self._log, self._run = log, run
        self._names: dict[Ref, str] = {}
        self._values: dict[Ref, dict[str, Any]] = {}
        self._steps: dict[int, StepQueued] = {}
        self._waiting: dict[int, StepQueued] = {}
        self._attributes = _Attributes()

    def entries(self, recorded: RecordedEvent) -> Entries:
        """Yield the changes that an event made."""
        own, event = Ref(recorded.version, recorded.stream), recorded.event
        change = runs.describe(event)
        match event:
            case NodeEvent():
                self._names[own] = runs.name_of(event)
                self._values[own] = values = {DESCRIPTION: event.description, **parse_json(event.fields)}
                yield AuditEntry(recorded, own, self._names[own], new=dict(values))
            case NodeRemoved(node=node, reason=reason):
                born = node.within(recorded.stream)
                old = self._values.pop(born, None) or self._values_before(recorded, born)
                yield AuditEntry(recorded, node, self._name(recorded, node), old=old, reason=reason)
            case NodeChanged(node=node) | PortraitWritten(node=node):
                values = self._values.get(node.within(recorded.stream), {})
                values.update((fact.attribute, fact.new) for fact in change.facts)
            case MessageRecorded(record=record):
                message = parse_json(record)
                yield AuditEntry(recorded, Ref(recorded.version), message.get("id"), new=message)
            case StepQueued() | StepTaken() | StepReturned() | StepsCleared():
                yield from self._step(recorded)
        yield from self._attributes.entries(recorded, change)
        for fact in change.facts:
            ref = own if fact.ref is ITSELF else fact.ref
            name = fact.name if ref is None else self._name(recorded, ref)
            other = "" if fact.other is None else f" {self._name(recorded, fact.other)}"
            attribute = f"{fact.attribute}{other}"
            yield AuditEntry(recorded, ref, name, attribute, fact.old, fact.new, fact.reason)

    def _values_before(self, recorded: RecordedEvent, born: Ref) -> dict[str, Any]:
        """
        Return the values that a node of an earlier round had before an event.

        Other runs may have changed it as well, so the values are read from the run's graph.
        """
        before = self._run.at(recorded.version - 1).graph()
        birth = str(born)
        return next((dict(node.attributes) for node in before.nodes.values() if node.birth == birth), {})

    def _step(self, recorded: RecordedEvent) -> Entries:
        match recorded.event:
            case StepQueued() as event:
                self._steps[recorded.version] = self._waiting[recorded.version] = event
                yield _of_step(recorded, recorded.version, event, is_there=True)
            case StepTaken(step=step):
                yield _of_step(recorded, step, self._waiting.pop(step), is_there=False)
            case StepReturned(step=step):
                self._waiting[step] = self._steps[step]
                yield _of_step(recorded, step, self._steps[step], is_there=True)
            case StepsCleared(queues=queues):
                for step in [step for step, event in self._waiting.items() if event.queue in queues]:
                    yield _of_step(recorded, step, self._waiting.pop(step), is_there=False)

    def _name(self, recorded: RecordedEvent, ref: Ref) -> str:
        born = ref.within(recorded.stream)
        if born not in self._names:
            # A node of an earlier round.
            self._names[born] = runs.name_of(first_events(self._log, [born])[born].event)
        return self._names[born]


def _of_step(recorded: RecordedEvent, step: int, event: StepQueued, *, is_there: bool) -> AuditEntry:
    shape = runs.step_shape(event)
    old, new = (None, shape) if is_there else (shape, None)
    return AuditEntry(recorded, Ref(step), event.name, old=old, new=new)


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """
    A change from `old` to `new`, both plain data; None if there was nothing before, or is nothing after.

    Without `attribute` an item was changed: `item` is its id or key, `birth` is its origin as `stream@version`. With
    `attribute` this attribute of an item, of a node (`item` is its name) or of the context was changed. `type` is the
    tag of the event, `reference` its `stream@version`; `recorded_at` is in microseconds since 1970, UTC. `causes` are
    references, too: the cause of the event, the cause of that one, and so on.
    """

    position: Position
    reference: str
    recorded_at: int
    actor: str | None
    correlation_id: str | None
    type: str
    item: str | None
    birth: str | None
    attribute: str | None
    old: Any
    new: Any
    reason: str | None
    causes: tuple[str, ...]


def transitions_of(log: Log, changes: Iterable[AuditEntry]) -> list[Transition]:
    """Return changes as plain data, each with its chain of causes."""
    listed = list(changes)
    causes = causes_of(log, [change.recorded for change in listed])
    return [_transition(change, causes[change.recorded.reference]) for change in listed]


def of_item(changes: Iterable[AuditEntry], name: str, stream: str) -> list[AuditEntry]:
    """
    Return the changes of one item, given its id or key, its origin, or a call id: then of the call and its output.

    Raises:
        NotFoundError: there never was such an item, or nothing happened to it since the context was forked.
    """
    births, listed = named_so(name, stream), list(changes)
    found = [change for change in listed if change.name == name or change.birth in births]
    if not found:
        called = {change.birth for change in listed if _is_called(change.old, name) or _is_called(change.new, name)}
        found = [change for change in listed if change.birth in called]
    if not found:
        parent = next((getattr(change.recorded.event, "parent", None) for change in listed), None)
        if parent is not None:
            way_out = f"`refold audit {quote(parent)}` lists those before"
            raise NotFoundError(f"{stream} has no change of an item {name!r} since it was forked: {way_out}")
        raise NotFoundError(f"{stream} never had an item {name!r}: `refold audit {quote(stream)}` lists all changes")
    return found


def _is_called(value: Any, call_id: str) -> bool:
    return isinstance(value, FunctionCalled | FunctionReturned) and value.call_id == call_id


def of_attribute(changes: Iterable[AuditEntry], name: str, stream: str) -> list[AuditEntry]:
    """
    Return the changes of one attribute.

    Raises:
        NotFoundError: there never was a change of it.
    """
    found = [change for change in changes if change.attribute == name]
    if not found:
        way_out = f"`refold audit {quote(stream)}` lists all changes"
        raise NotFoundError(f"{stream} never had an attribute {name!r} that was changed: {way_out}")
    return found


def of_actor(changes: Iterable[AuditEntry], actor: str, subject: str) -> list[AuditEntry]:
    """
    Return the changes by one actor; `subject` names in the error whose changes these are.

    Raises:
        NotFoundError: the actor changed nothing.
    """
    every = list(changes)
    found = [change for change in every if change.recorded.meta.actor == actor]
    if not found:
        names = sorted({change.recorded.meta.actor for change in every if change.recorded.meta.actor})
        others = ", ".join(names[:ACTORS_SHOWN_MAX]) or "nobody with a name"
        raise NotFoundError(f"{actor!r} changed nothing of {subject}: its changes are by {others}")
    return found


def _transition(change: AuditEntry, causes: tuple[str, ...]) -> Transition:
    recorded = change.recorded
    return Transition(
        position=recorded.position,
        reference=recorded.reference,
        recorded_at=recorded.recorded_at,
        actor=recorded.meta.actor,
        correlation_id=recorded.meta.correlation_id,
        type=tag_of(recorded.event),
        item=change.name,
        birth=change.birth,
        attribute=change.attribute,
        old=plain_value(change.old),
        new=plain_value(change.new),
        reason=change.reason,
        causes=causes,
    )


def plain_value(value: Any) -> Any:
    """Return an old or new value as plain data: an item as its fields, anything else as it is."""
    return plain_item(value) if isinstance(value, Item) else value
