"""
What the events of a run did: to its nodes, edges and pointers, to its steps, and to the run itself.

Nodes are named without a number, which depends on what comes later; the place of their birth tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...domain.canonical import parse_json
from ...domain.context.decider import trusted
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.spans import Ref
from ...domain.trajectory import Run
from ...domain.trajectory.events import (
    EdgeAdded,
    MessageRecorded,
    NodeChanged,
    NodeEvent,
    NodeRegistered,
    NodeRemoved,
    PointersMoved,
    PortraitDiscarded,
    PortraitFailed,
    PortraitRequested,
    PortraitWritten,
    RoundsRestored,
    RunClosed,
    RunNamed,
    RunOpened,
    StepQueued,
    StepRefused,
    StepReturned,
    StepsCleared,
    StepTaken,
)
from ...domain.trajectory.nodes import DESCRIPTION, node_name
from ...domain.trajectory.state import type_of
from ..plain_data import plain_fields
from .audit_trail import Change
from .origins import births, full_ref

Changes = Iterator[Change]


def run_changes(log: Log, run: Run, version: int) -> Changes:
    """Yield what became of a run and of all in it up to a version, oldest first."""
    trail = _Trail(log, run)
    with trusted(run.stream):
        for recorded in log.read(run.stream, until=version):
            yield from trail.changes(recorded)


class _Trail:
    """A run while its events are gone through: what nodes are called, and which steps wait."""

    def __init__(self, log: Log, run: Run) -> None:
        self._log, self._run = log, run
        self._names: dict[Ref, str] = {}
        self._values: dict[Ref, dict[str, Any]] = {}
        self._steps: dict[int, StepQueued] = {}
        self._waiting: dict[int, StepQueued] = {}
        self._attributes: dict[str, Any] = {}

    def changes(self, recorded: RecordedEvent) -> Changes:
        """Yield what an event did."""
        match recorded.event:
            case NodeEvent() as event:
                yield from self._registered(recorded, event)
            case NodeChanged(node=node, changes=changes):
                for one in changes:
                    yield self._attribute(recorded, node, one.name, parse_json(one.old), parse_json(one.new))
            case NodeRemoved() as event:
                yield from self._removed(recorded, event)
            case EdgeAdded(source=source, target=target, edge=edge):
                yield self._edge(recorded, source, target, edge)
            case PointersMoved(left=left, joined=joined):
                yield from self._pointers(recorded, left, joined)
            case PortraitRequested() | PortraitWritten() | PortraitFailed() | PortraitDiscarded():
                yield self._portrait(recorded)
            case StepQueued() | StepTaken() | StepReturned() | StepRefused() | StepsCleared():
                yield from self._step(recorded)
            case _:
                yield from self._of_run(recorded)

    def _registered(self, recorded: RecordedEvent, event: NodeEvent) -> Changes:
        own = Ref(recorded.version, recorded.stream)
        self._names[own] = _name_of(event)
        self._values[own] = values = {DESCRIPTION: event.description, **parse_json(event.fields)}
        yield self._of(recorded, own, None, None, dict(values))
        if not isinstance(event, NodeRegistered):
            yield from self._pointers(recorded, (), (own,))
            return
        for source in event.sources:
            yield self._edge(recorded, source, own, event.edge)
        yield from self._pointers(recorded, event.left, (own,) if event.is_pointer else ())

    def _attribute(self, recorded: RecordedEvent, ref: Ref, name: str, old: Any, new: Any) -> Change:
        values = self._values.get(full_ref(ref, recorded.stream))
        if values is not None:
            values[name] = new
        return self._of(recorded, ref, name, old, new)

    def _removed(self, recorded: RecordedEvent, event: NodeRemoved) -> Changes:
        born = full_ref(event.node, recorded.stream)
        old = self._values.pop(born, None) or self._values_before(recorded, born)
        yield self._of(recorded, event.node, None, old, None, event.reason)
        yield from self._pointers(recorded, (), event.joined)

    def _values_before(self, recorded: RecordedEvent, born: Ref) -> dict[str, Any]:
        """Return what a node of an earlier round had, which other runs may have changed as well."""
        before = self._run.at(recorded.version - 1).graph()
        birth = f"{born.stream}@{born.version}"
        return next((dict(node.attributes) for node in before.nodes.values() if node.birth == birth), {})

    def _edge(self, recorded: RecordedEvent, source: Ref, target: Ref, edge: str) -> Change:
        return self._of(recorded, target, f"edge from {self._name(recorded, source)}", None, edge)

    def _pointers(self, recorded: RecordedEvent, left: Iterable[Ref], joined: Iterable[Ref]) -> Changes:
        for refs, is_one in ((left, False), (joined, True)):
            for ref in refs:
                yield self._of(recorded, ref, "pointer", not is_one, is_one)

    def _portrait(self, recorded: RecordedEvent) -> Change:
        match recorded.event:
            case PortraitRequested(node=node):
                return self._of(recorded, node, "portrait", None, "requested")
            case PortraitWritten(node=node, description=text):
                return self._attribute(recorded, node, DESCRIPTION, "", text)
            case PortraitFailed(node=node, error=error):
                return self._of(recorded, node, "portrait", "requested", "failed", error)
            case PortraitDiscarded(node=node):
                return self._of(recorded, node, "portrait", "requested", "discarded")
        raise AssertionError(f"{recorded.reference} is about no portrait")

    def _step(self, recorded: RecordedEvent) -> Changes:
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
            case StepRefused(queue=queue, name=name, params=params, capacity=capacity):
                new = {"queue": queue, "name": name, "params": parse_json(params)}
                reason = f"the queue held {capacity:,} step{'' if capacity == 1 else 's'} already"
                yield Change(recorded, None, name, "refused", new=new, reason=reason)

    def _of_run(self, recorded: RecordedEvent) -> Changes:
        match recorded.event:
            case RunOpened() as event:
                yield Change(recorded, attribute="opened", new=plain_fields(event))
            case MessageRecorded(record=record):
                message = parse_json(record)
                yield Change(recorded, Ref(recorded.version), message.get("id"), new=message)
            case RunNamed(name=name, version=version):
                yield self._set(recorded, f"name {name}", version)
            case RoundsRestored(rounds=rounds):
                yield self._set(recorded, "rounds", [f"{one.stream}@{one.version}" for one in rounds])
            case RunClosed(reason=reason):
                yield Change(recorded, attribute="closed", old=False, new=True, reason=reason)

    def _set(self, recorded: RecordedEvent, attribute: str, value: Any) -> Change:
        old = self._attributes.get(attribute)
        self._attributes[attribute] = value
        return Change(recorded, attribute=attribute, old=old, new=value)

    def _of(
        self, recorded: RecordedEvent, ref: Ref, attribute: str | None, old: Any, new: Any, reason: str | None = None
    ) -> Change:
        return Change(recorded, ref, self._name(recorded, ref), attribute, old, new, reason)

    def _name(self, recorded: RecordedEvent, ref: Ref) -> str:
        born = full_ref(ref, recorded.stream)
        if born not in self._names:
            # A node of an earlier round.
            self._names[born] = _name_of(births(self._log, [born])[born].event)
        return self._names[born]


def _of_step(recorded: RecordedEvent, step: int, event: StepQueued, *, is_there: bool) -> Change:
    shape = {"queue": event.queue, "name": event.name, "params": parse_json(event.params)}
    old, new = (None, shape) if is_there else (shape, None)
    return Change(recorded, Ref(step), event.name, old=old, new=new)


def _name_of(event: NodeEvent) -> str:
    return node_name(type_of(event), event.label)
