"""The events of runs in words and as data, and the text of their values and messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..canonical import parse_json
from ..context.description import (
    ITSELF,
    Change,
    Fact,
    Left,
    WriteJson,
    because,
    counted,
    joined,
    named_version,
    place_of,
    source_of,
)
from ..messages import calls_of, field, kind_of
from ..spans import Ref, span_of
from . import events as run
from .nodes import DESCRIPTION, node_name


def describe(event: run.RunEvent) -> Change:
    """Return what an event did in a run."""
    match event:
        case run.RunOpened():
            return _opened(event)
        case run.RoundsRestored(rounds=rounds):
            return Change(
                lambda _: ", ".join(source_of(one.stream, one.version) for one in rounds),
                settings={"rounds": [f"{one.stream}@{one.version}" for one in rounds]},
            )
        case run.RunNamed(name=name, version=version):
            return named_version(name, version)
        case run.RunClosed(reason=reason):
            return Change(lambda _: because(reason), facts=(Fact("closed", False, True, reason=reason),))
        case run.MessageRecorded(record=record):
            message = parse_json(record)
            return Change(lambda write: f"{kind_of(message)}: {message_text(message, write)}")
        case run.StepQueued() | run.StepTaken() | run.StepReturned() | run.StepRefused() | run.StepsCleared():
            return _step(event)
        case run.PortraitRequested() | run.PortraitWritten() | run.PortraitFailed() | run.PortraitDiscarded():
            return _portrait(event)
        case _:
            return _graph(event)


def name_of(event: run.NodeEvent) -> str:
    """Return the name of the node that an event registered, without a number."""
    return node_name(run.type_of(event), event.label)


def value_text(value: Any, write: WriteJson) -> str:
    """Return an attribute's value: a text as it is if it is not empty, any other value as JSON."""
    return value if isinstance(value, str) and value else write(value)


def message_text(record: Any, write: WriteJson) -> str:
    """Return the content of a message and the calls that it asks for."""
    content = field(record, "content")
    texts = [value_text(content, write)] if content else []
    return "\n".join([*texts, *(_call(call, write) for call in calls_of(record))])


def _call(call: Any, write: WriteJson) -> str:
    name = field(call, "name")
    return f"{name}({write(field(call, 'args'))})" if name else write(call)


def _opened(event: run.RunOpened) -> Change:
    texts: dict[str, Any] = {"user": event.user, "session": event.session, "round": event.round, "sub": event.sub}
    texts |= {"agent": event.agent, "source": event.source}
    fields: dict[str, Any] = {"user": event.user, "session": event.session, "agent": event.agent}
    fields |= {"round": event.round or None, "sub": event.sub or None, "source": event.source}
    return Change(
        lambda _: " ".join(f"{name}={value}" for name, value in texts.items() if value is not None),
        opened={name: value for name, value in fields.items() if value is not None},
    )


def _graph(event: run.RunEvent) -> Change:
    match event:
        case run.NodeRegistered():
            edges = (Fact("edge from", None, event.edge, ITSELF, other=source) for source in event.sources)
            pointers = _pointers(event.left, (ITSELF,) if event.is_pointer else ())
            return Change(lambda write: _registered(event, write), facts=(*edges, *pointers))
        case run.NodeEvent(fields=fields):
            return Change(
                lambda write: f"{name_of(event)}: {value_text(parse_json(fields).get('query'), write)}",
                facts=_pointers((), (ITSELF,)),
            )
        case run.NodeChanged(node=node, changes=changes):
            facts = tuple(Fact(one.name, parse_json(one.old), parse_json(one.new), node) for one in changes)
            return Change(lambda write: f"{place_of(node)} {'; '.join(_changed(facts, write))}", facts=facts)
        case run.NodeRemoved(node=node, joined=pointers, reason=reason):
            now = f"pointers now {_places(pointers)}" if pointers else ""
            return Change(
                lambda _: joined([place_of(node), now, because(reason)]),
                facts=_pointers((), pointers),
                left=Left((span_of(node),), "remove", reason),
            )
        case run.EdgeAdded(source=source, target=target, edge=edge):
            return Change(
                lambda _: f"{place_of(target)}, {edge} from {place_of(source)}",
                facts=(Fact("edge from", None, edge, target, other=source),),
            )
        case run.PointersMoved(left=left, joined=pointers):
            parts = [f"left {_places(left)}" if left else "", f"joined {_places(pointers)}" if pointers else ""]
            return Change(lambda _: joined(parts), facts=_pointers(left, pointers))
    raise AssertionError(f"{type(event).__name__} is no event of a graph")


def _registered(event: run.NodeRegistered, write: WriteJson) -> str:
    left = _places(event.left)
    pointer = f"no pointer any more {left}" if left else ""
    if event.is_pointer:
        pointer = f"pointer in the place of {left}" if left else "pointer"
    about = joined([name_of(event), f"{event.edge} from {_places(event.sources)}", pointer])
    return f"{about}: {event.description or write(parse_json(event.fields))}"


def _changed(facts: Iterable[Fact], write: WriteJson) -> Iterable[str]:
    return (f"{one.attribute}: {value_text(one.old, write)} -> {value_text(one.new, write)}" for one in facts)


def _pointers(left: Iterable[Ref], joining: Iterable[Ref]) -> tuple[Fact, ...]:
    refs = ((left, False), (joining, True))
    return tuple(Fact("pointer", not is_one, is_one, ref) for some, is_one in refs for ref in some)


def _portrait(
    event: run.PortraitRequested | run.PortraitWritten | run.PortraitFailed | run.PortraitDiscarded,
) -> Change:
    place = place_of(event.node)
    match event:
        case run.PortraitRequested(node=node, model=model):
            by = f"from {model}" if model else ""
            return Change(lambda _: joined([place, by]), facts=(Fact("portrait", None, "requested", node),))
        case run.PortraitWritten(node=node, description=text, model=model):
            by = f"by {model}" if model else ""
            return Change(lambda _: f"{joined([place, by])}: {text}", facts=(Fact(DESCRIPTION, "", text, node),))
        case run.PortraitFailed(node=node, error=text):
            failed = Fact("portrait", "requested", "failed", node, reason=text)
            return Change(lambda _: f"{place}: {text}", facts=(failed,))
        case run.PortraitDiscarded(node=node, description=text):
            discarded = Fact("portrait", "requested", "discarded", node)
            return Change(lambda _: f"{place}: {text}", facts=(discarded,))


def _step(
    event: run.StepQueued | run.StepTaken | run.StepReturned | run.StepRefused | run.StepsCleared,
) -> Change:
    match event:
        case run.StepQueued(queue=queue, name=name, params=params):
            return Change(lambda write: f"{queue}: {_with_params(name, params, write)}")
        case run.StepRefused(queue=queue, name=name, params=params, capacity=capacity):
            held = counted(capacity, "step")
            refused = Fact("refused", new=step_shape(event), name=name, reason=f"the queue held {held} already")
            return Change(
                lambda write: f"{queue}, which held {held} already: {_with_params(name, params, write)}",
                facts=(refused,),
            )
        case run.StepTaken(queue=queue, step=step):
            return Change(lambda _: f"{queue}: @{step}", left=Left((span_of(Ref(step)),), "take"))
        case run.StepReturned(queue=queue, step=step):
            return Change(lambda _: f"{queue}: @{step}", came=(span_of(Ref(step)),))
        case run.StepsCleared(queues=queues):
            return Change(lambda _: ", ".join(queues), left=Left(None, "clear"))


def step_shape(event: run.StepQueued | run.StepRefused) -> dict[str, Any]:
    """Return a step as plain data."""
    return {"queue": event.queue, "name": event.name, "params": parse_json(event.params)}


def _with_params(name: str, params: bytes, write: WriteJson) -> str:
    return f"{name} {value_text(parse_json(params), write)}" if params else name


def _places(refs: Iterable[Ref]) -> str:
    return ", ".join(map(place_of, refs))
