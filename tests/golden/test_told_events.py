"""
What is said of each known event, which actions it asks for, and what an erasure leaves of it: see
tests/golden/told/events.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from refold.domain.canonical import canonical_json
from refold.domain.context.description import Change
from refold.domain.erasure.skeleton import TEXTS, Mask, persons_skeleton, skeleton_of
from refold.domain.log.envelope import Event
from refold.domain.log.gate import _asked_for
from refold.domain.spans import Ref, Span
from refold.infrastructure.log.codec import tag_of
from refold.infrastructure.views.shapes import describe
from tests.support.written_down import assert_as_written

from .known import EVENTS

WHOLE = Mask("mia", b"salt", "[archived]")


def variants(event: Event) -> Iterator[tuple[str, Event]]:
    """Yield an event, then the event without each of its optional fields, with the name of the field."""
    yield "", event
    for name, default in defaults_of(type(event)).items():
        if default is not msgspec.NODEFAULT and getattr(event, name) != default:
            yield name, msgspec.structs.replace(event, **{name: default})


@cache
def defaults_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields of a struct with their defaults."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def write_json(value: Any) -> str:
    """Return a value as JSON; a struct as the fields that are not at their default."""
    return canonical_json(plain(value), what="a value").decode()


def plain(value: Any) -> Any:
    """Return structs as dicts of the fields that are not at their default, places as users type them."""
    if isinstance(value, Span):
        return f"{value.stream}@" + " ".join(f"{run[0]}..{run[-1]}" for run in value.ranges())
    if isinstance(value, Ref):
        return f"{value.stream}@{value.version}"
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name), default) for name, default in defaults_of(type(value)).items())
        return {name: plain(inner) for name, inner, default in fields if inner != default}
    if isinstance(value, tuple | list):
        return [*map(plain, value)]
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return value.decode() if isinstance(value, bytes) else value


def data_of(change: Change) -> Iterator[str]:
    """Yield what a change says besides its words."""
    for name, default in defaults_of(type(change)).items():
        value = getattr(change, name)
        if name != "words" and value not in (default, {}):
            yield f"{name}: {write_json(value)}"


def left_of(event: Any, left: Any) -> str:
    """Return the fields that an erasure changed, as they are then."""
    names = (name for name in event.__struct_fields__ if getattr(left, name) != getattr(event, name))
    return write_json({name: getattr(left, name) for name in names})


def told_of(event: Any) -> list[str]:
    """Return the lines about an event."""
    change = describe(event)
    gone = {"erased": skeleton_of(event, TEXTS), "archived": skeleton_of(event, WHOLE)}
    gone["without mia"] = persons_skeleton(event, WHOLE)
    return [
        f"words: {change.words(write_json)!r}",
        *data_of(change),
        f"asks: {', '.join(f'{action} {context}' for action, context in _asked_for(event, 'own'))}",
        *(f"{name}: {left_of(event, left)}" for name, left in gone.items() if left is not event),
    ]


def test_what_is_said_of_each_event() -> None:
    """Also of one that lacks a field: then the lines that are other ones, and those that are not there."""
    text: list[str] = []
    for event in EVENTS:
        whole = told_of(event)
        for field, one in variants(event):
            told = told_of(one)
            names = {line.partition(":")[0] for line in told}
            lost = [name for line in whole if (name := line.partition(":")[0]) not in names]
            changed = [line for line in told if not (field and line in whole)] + [f"no {name}" for name in lost]
            if changed:
                text += [f"  without {field}" if field else tag_of(event), *(f"    {line}" for line in changed)]

    assert_as_written("events", "".join(f"{line}\n" for line in text))
