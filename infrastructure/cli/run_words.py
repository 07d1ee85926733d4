"""Runs for the command line: a run at one version, and its events in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...domain.canonical import parse_json
from ...domain.log.ports import Log
from ...domain.messages import calls_of, field, kind_of
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
    QueryRegistered,
    RoundsRestored,
    RunClosed,
    RunEvent,
    RunNamed,
    RunOpened,
    StepQueued,
    StepRefused,
    StepReturned,
    StepsCleared,
    StepTaken,
)
from ...domain.trajectory.nodes import node_name
from ...domain.trajectory.state import type_of
from .render import because, counted, joined, json_text, source_of


class SeenRun:
    """A run at one version."""

    def __init__(self, log: Log, run: Run, version: int) -> None:
        self.log, self.version, self.head = log, version, run.version
        self.stream = run.stream
        self.run = run.at(version)


def run_summary(event: object) -> str | None:
    """Return what happened in a run, in one sentence; None where it is no event of a run."""
    if isinstance(event, NodeEvent):
        return _node(event)
    return _of_run(event) if isinstance(event, RunEvent) else None


def name_of(event: NodeEvent) -> str:
    """Return the name of the node that an event registered, without a number."""
    return node_name(type_of(event), event.label)


def value_text(value: Any) -> str:
    """Return an attribute's value: a text as it is, everything else as JSON; an empty text would not be seen."""
    return value if isinstance(value, str) and value else json_text(value)


def message_text(record: Any) -> str:
    """Return what a message says: its content, and the calls it asks for."""
    content = record["content"]
    return "\n".join([*([value_text(content)] if content else []), *map(_call, calls_of(record))])


def _call(call: Any) -> str:
    name = field(call, "name")
    return f"{name}({json_text(field(call, 'args'))})" if name else json_text(call)


def _node(event: NodeEvent) -> str:
    fields = parse_json(event.fields)
    if isinstance(event, QueryRegistered):
        return f"{name_of(event)}: {value_text(fields.get('query'))}"
    assert isinstance(event, NodeRegistered)
    about = joined([name_of(event), f"{event.edge} from {_places(event.sources)}", _pointers(event)])
    return f"{about}: {event.description or json_text(fields)}"


def _pointers(event: NodeRegistered) -> str:
    left = _places(event.left)
    if event.is_pointer:
        return f"pointer in the place of {left}" if left else "pointer"
    return f"no pointer any more {left}" if left else ""


def _of_run(event: RunEvent) -> str:
    match event:
        case RunOpened():
            about = {"user": event.user, "session": event.session, "round": event.round, "sub": event.sub}
            about |= {"agent": event.agent, "source": event.source}
            return " ".join(f"{name}={value}" for name, value in about.items() if value is not None)
        case RoundsRestored(rounds=rounds):
            return ", ".join(source_of(one.stream, one.version) for one in rounds)
        case RunNamed(name=name, version=version):
            return f"{name} = @{version}"
        case RunClosed(reason=reason):
            return because(reason)
        case MessageRecorded(record=record):
            message = parse_json(record)
            return f"{kind_of(message)}: {message_text(message)}"
        case StepQueued() | StepTaken() | StepReturned() | StepRefused() | StepsCleared():
            return _step(event)
        case _:
            return _of_graph(event)


def _of_graph(event: RunEvent) -> str:
    match event:
        case NodeChanged(node=node, changes=changes):
            said = (f"{one.name}: {_stored(one.old)} -> {_stored(one.new)}" for one in changes)
            return f"{_place(node)} {'; '.join(said)}"
        case NodeRemoved(node=node, joined=pointers, reason=reason):
            return joined([_place(node), f"pointers now {_places(pointers)}" if pointers else "", because(reason)])
        case EdgeAdded(source=source, target=target, edge=edge):
            return f"{_place(target)}, {edge} from {_place(source)}"
        case PointersMoved(left=left, joined=pointers):
            return joined([f"left {_places(left)}" if left else "", f"joined {_places(pointers)}" if pointers else ""])
        case PortraitRequested(node=node, model=model):
            return joined([_place(node), f"from {model}" if model else ""])
        case PortraitWritten(node=node, description=text, model=model):
            return joined([_place(node), f"by {model}" if model else ""]) + f": {text}"
        case PortraitFailed(node=node, error=text) | PortraitDiscarded(node=node, description=text):
            return f"{_place(node)}: {text}"
    raise AssertionError(f"{type(event).__name__} is no event of a graph")


def _step(event: StepQueued | StepTaken | StepReturned | StepRefused | StepsCleared) -> str:
    match event:
        case StepQueued(queue=queue, name=name, params=params):
            return f"{queue}: {_with_params(name, params)}"
        case StepRefused(queue=queue, name=name, params=params, capacity=capacity):
            return f"{queue}, which held {counted(capacity, 'step')} already: {_with_params(name, params)}"
        case StepTaken(queue=queue, step=step) | StepReturned(queue=queue, step=step):
            return f"{queue}: @{step}"
        case StepsCleared(queues=queues):
            return ", ".join(queues)


def _with_params(name: str, params: bytes) -> str:
    return f"{name} {_stored(params)}" if params else name


def _stored(value: bytes) -> str:
    return value_text(parse_json(value))


def _place(ref: Ref) -> str:
    return source_of(ref.stream, ref.version)


def _places(refs: Iterable[Ref]) -> str:
    return ", ".join(map(_place, refs))
