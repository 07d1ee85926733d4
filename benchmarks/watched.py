"""
A log of many runs, with two tables that several rounds meet and often change.

Every run asks, acts, finds tables and describes them. The rounds of the watched session lie spread over the whole log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from refold.domain.log.envelope import Meta
from refold.domain.log.ports import NewEvents
from refold.domain.spans import Ref
from refold.domain.trajectory.events import (
    AttributeChange,
    NodeChanged,
    NodeRegistered,
    QueryRegistered,
    RunEvent,
    RunOpened,
)
from refold.domain.trajectory.identity import RunId

USER, WATCHED, ATTRIBUTE = "mia", "watched", "path"
ROUNDS = 10
RUN_EVENTS = 1_000
CREATED_AT = 1_790_000_000.25
# The changes of a table in a run: it is found, described, and moved twice.
STEP = ("description", "path", "path")
WHO = Meta("analyst", "trace-0001", "chat:support-42@7")


class Change(NamedTuple):
    """An attribute of a node before and after, as JSON; `node` names the session and the node."""

    node: str
    attribute: str
    old: bytes
    new: bytes


def node_of(session: str, label: str) -> str:
    """Return the name of a table of a session, the same for all contestants."""
    return f"{USER}/{session}/Table({label})"


def changes_of(events: int) -> dict[str, int]:
    """Return how often the path of each watched table changes in a log of so many events."""
    return {"parts": ROUNDS * max(1, events // 100_000), "orders": ROUNDS * max(2, events // 10_000)}


def watched_log(events: int) -> Iterator[NewEvents]:
    """Yield about so many events, one run at a time."""
    runs = max(ROUNDS, events // RUN_EVENTS)
    size = min(RUN_EVENTS, events // ROUNDS)
    for number in range(runs):
        yield _run(f"session-{number}", 0, [f"table-{step}" for step in range(size // (1 + len(STEP)))], 1)
        if number % (runs // ROUNDS) == 0 and number // (runs // ROUNDS) < ROUNDS:
            yield _watched(number // (runs // ROUNDS), changes_of(events))


def _watched(number: int, counts: dict[str, int]) -> NewEvents:
    events = _beginning(WATCHED, number)
    for label, count in counts.items():
        events += _table(len(events) + 1, label, ["description", *[ATTRIBUTE] * (count // ROUNDS)], number)
    return _appended(WATCHED, number, events)


def _run(session: str, number: int, labels: Sequence[str], salt: int) -> NewEvents:
    events = _beginning(session, number)
    for label in labels:
        events += _table(len(events) + 1, label, STEP, salt)
    return _appended(session, number, events)


def _beginning(session: str, number: int) -> list[RunEvent]:
    opened = RunOpened(user=USER, session=session, agent="analyst", round=number)
    fields = b'{"additional_files":[],"query":"Which orders are late?"}'
    return [opened, QueryRegistered(label=f"query{number:05}", fields=fields, created_at=CREATED_AT)]


def _table(version: int, label: str, attributes: Sequence[str], salt: int) -> list[RunEvent]:
    values = {"description": b'""', "path": b'"/data/%d/0.csv"' % salt}
    born = NodeRegistered(
        type="Table",
        label=label,
        fields=b'{"path":%b}' % values["path"],
        created_at=CREATED_AT,
        sources=(Ref(2),),
        edge="find_relevant_data",
    )
    events: list[RunEvent] = [born]
    for place, name in enumerate(attributes, 1):
        new = b'"/data/%d/%d.csv"' % (salt, place) if name == "path" else b'"All that was ordered and not paid yet."'
        events.append(NodeChanged(node=Ref(version), changes=(AttributeChange(name, values[name], new),)))
        values[name] = new
    return events


def _appended(session: str, number: int, events: list[RunEvent]) -> NewEvents:
    return NewEvents(
        stream=RunId(USER, session, number).stream,
        expected_version=0,
        root=session,
        events=tuple(events),
        metas=(WHO,) * len(events),
    )


def changes_in(new: NewEvents) -> Iterator[Change]:
    """
    Yield the changes that the events of a run make, one attribute at a time, as a table for audits would hold them.
    """
    session = new.root
    names: dict[int, str] = {}
    for version, event in enumerate(new.events, 1):
        if isinstance(event, NodeRegistered):
            names[version] = node = node_of(session, event.label)
            path = event.fields.removeprefix(b'{"path":').removesuffix(b"}")
            yield from (Change(node, "description", b"null", b'""'), Change(node, "path", b"null", path))
        elif isinstance(event, NodeChanged):
            yield from (Change(names[event.node.version], *_parts(one)) for one in event.changes)


def _parts(one: AttributeChange) -> tuple[str, bytes, bytes]:
    return one.name, one.old, one.new
