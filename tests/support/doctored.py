"""
Files as an attacker or a broken disk leaves them: changed at random, in the same way for the same seed. Also asks a
store every question, to see which answers it still gives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import refold
from refold.domain.errors import RefoldError
from refold.domain.trajectory.identity import run_id_of
from refold.infrastructure.cli.contexts import _counted as counted
from refold.infrastructure.exchange import export_events, take_in_events
from refold.infrastructure.views.shapes import plain_fields

from .every_kind import opened, told

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(2**70), 1.5, 1e300, 1e19,
    "", "x", "\x00", "\ud800", "user", "robot", "e30=", "eyI=", "//4=", "W10=", "e30", "AAAA", "é" * 99, "chat:a", "..",
    "2026-11-21T10:00:00Z", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+14:00",
    [], {}, [[]], [{}], ["x"], [1, 2], {"t": "x"}, {"id": 7}, {"type": "text", "text": 1}, {"role": "user"},
)  # fmt: skip
BYTES = b'\x00\n"{}[]x7,:\\\xff\xc3-e.'
DEEP = 900


def doctored(data: bytes, seed: int) -> bytes:
    """Return a JSON file, or one of JSON Lines, with one to three changes: of its values, its lines or its bytes."""
    chance = Random(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        change = chance.choice((_values, _values, _values, _values, _lines, _bytes))
        data = change(data, chance)
    return data


def _values(data: bytes, chance: Random) -> bytes:
    lines = data.split(b"\n")
    whole = not lines[-1].strip() and len(lines) > 2
    place = chance.randrange(len(lines) - 1) if whole else None
    try:
        value = [json.loads(data if place is None else lines[place])]
    except (ValueError, RecursionError):
        return _bytes(data, chance)
    _change(value, chance)
    try:
        changed = json.dumps(value[0]).encode() if value else b""
    except RecursionError:
        return _bytes(data, chance)
    if place is None:
        return changed
    lines[place] = changed
    return b"\n".join(lines)


def _change(value: list[Any], chance: Random) -> None:
    places = list(_places(value))
    # Deep places are chosen as often as places at the top: a kind of place is chosen by its keys alone.
    inside, key = chance.choice(places)
    other, other_key = chance.choice(places)
    match chance.randrange(8):
        case 0:
            del inside[key]
        case 1:
            inside[key] = _copied(other[other_key])
        case 2 if isinstance(inside, dict):
            inside[chance.choice(("x", "role", "t", "id", str(other_key)))] = inside.pop(key)
        case 3 if isinstance(inside, list):
            inside.insert(key, _copied(inside[key]))
        case 4 if chance.randrange(4) == 0:
            for _ in range(chance.choice((60, 110, 210, DEEP))):
                inside[key] = [inside[key]] if chance.randrange(2) else {"a": inside[key]}
        case _:
            inside[key] = _copied(chance.choice(HOSTILE))


def _copied(value: Any) -> Any:
    # A value that is nested too deeply to be copied is hostile enough unchanged.
    try:
        return json.loads(json.dumps(value))
    except RecursionError:
        return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [value]
    while waiting:
        inside = waiting.pop()
        pairs = inside.items() if isinstance(inside, dict) else enumerate(inside)
        for key, inner in pairs:
            yield inside, key
            if isinstance(inner, dict | list):
                waiting.append(inner)


def _lines(data: bytes, chance: Random) -> bytes:
    lines = data.split(b"\n")
    one, other = (chance.randrange(len(lines)) for _ in range(2))
    match chance.randrange(3):
        case 0:
            del lines[one]
        case 1:
            lines.insert(one, lines[other])
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _bytes(data: bytes, chance: Random) -> bytes:
    if chance.randrange(8) == 0:
        return data[: chance.randrange(len(data) + 1)]
    changed = bytearray(data or b"x")
    for _ in range(chance.randint(1, 3)):
        changed[chance.randrange(len(changed))] = chance.choice(BYTES)
    return bytes(changed)


def every_answer(store: refold.Store, folder: Path) -> None:
    """Ask a store every question, and raise the error of a question that it cannot answer."""
    contexts = store.contexts()
    assert counted(store.rollup(), contexts)["contexts"] == len(contexts)
    for word in ("question", "x", "user"):
        store.search(word)
    store.lineage()
    store.usage()
    for row in contexts:
        for recorded in store.log.read(row.key):
            json.dumps(plain_fields(recorded.event, row.key))
        if row.kind != "memory":
            _shown(store, row)
        store.audit(row.key)
    for status in store.projections():
        assert status.error is None, status
    report = store.verify()
    assert report.is_whole, report.problems
    if contexts:
        export_events(store.log, folder / "again.refold")
        with refold.open(":memory:") as other:
            assert take_in_events(other.log, folder / "again.refold").added == len(contexts)


def _shown(store: refold.Store, row: Any) -> None:
    run = row.kind == "run"
    context: Any = store.run(*run_id_of(row.id), create=False) if run else opened(store, row)
    for version in {1, context.version // 2 or 1, context.version}:
        told(row.kind, context.at(version))
    told(row.kind, context)
    if row.kind == "chat":
        exact = partial(context.to_openai_messages, exact=True)
        for convert in (exact, context.to_openai_messages, context.to_anthropic_messages, context.to_google_json):
            # A chat may hold items that a provider refuses.
            with suppress(RefoldError):
                convert()
