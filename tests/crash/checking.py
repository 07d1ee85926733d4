"""What must hold of a log, whatever was thrown at those who wrote to it."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import refold
from refold.domain.log.envelope import RecordedEvent
from refold.domain.log.ports import LiveLog
from refold.infrastructure.verifying.store_check import verify
from refold.projections.catalogue import CATALOGUE

from ..contract.writing import check_chain, check_order, everything

ITEM_ID = re.compile(r"(?P<hand>.+)\.(?P<number>\d+)/(?P<place>\d+)/(?P<size>\d+)")


class Window(NamedTuple):
    """When a copy was made, and when it had been put back: what was acknowledged between may be gone."""

    kept: float
    put_back: float


class Found(NamedTuple):
    """How much was acknowledged, and what is wrong: ids, or sentences."""

    acknowledged: int = 0
    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    disordered: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong."""
        return [
            f"{name}: {one}" for name in ("lost", "doubled", "disordered", "damaged") for one in getattr(self, name)
        ]


def check(place: str, folder: Path, *, windows: Sequence[Window] = (), are_all_verified: bool = True) -> Found:
    """Open the store again, and look at all that was promised; of the projections, at all or only at the catalogue."""
    with refold.open(place) as store:
        events = everything(store.log)
        damaged = [*_broken(lambda: check_streams(store.log, events)), *_broken(lambda: check_batches(events))]
        projections = list(store._runner.projections.values()) if are_all_verified else [CATALOGUE]
        damaged += [f"verify: {one}" for one in verify(store.log, store._projections, projections).problems]
        damaged += _broken(lambda: store.chat("after").add_message("user", "goes on"))
    kept = Counter(one for one in [getattr(event.event, "id", "") for event in events] if ITEM_ID.fullmatch(one))
    books = [list(read_book(path)) for path in sorted(folder.glob("*.book"))]
    lost = [one for book in books for one in _lost(book, kept, windows)]
    return Found(
        acknowledged=sum(len(ids) for book in books for line in book for ids in line.get("said", {}).values()),
        lost=tuple(lost),
        doubled=tuple(one for one, count in kept.items() if count > 1),
        disordered=tuple(_disordered(events)),
        damaged=tuple(damaged),
    )


def read_book(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what was written down."""
    for line in whole_lines(path):
        yield json.loads(line)


def whole_lines(path: Path) -> list[str]:
    """Return the lines of a file whose writer may have been killed: a last one that was cut off counts for nothing."""
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


def _lost(book: Sequence[dict[str, Any]], kept: Counter[str], windows: Sequence[Window]) -> Iterator[str]:
    """Yield what was acknowledged and is gone, unless a copy was put back over it, and the writer heard so later."""
    heard = {stream: line["until"] for line in book for stream in line.get("gone", ())}
    for line in book:
        for stream, ids in line.get("said", {}).items():
            may_be_gone = any(one.kept <= line["until"] and line["since"] <= one.put_back for one in windows)
            if not (may_be_gone and line["since"] <= heard.get(stream, 0.0)):
                yield from (one for one in ids if not kept[one])


def _disordered(events: Sequence[RecordedEvent]) -> Iterator[str]:
    """Yield items that stand in their stream before what the same thread had written there earlier."""
    last: dict[tuple[str, str], tuple[int, int]] = {}
    for event in events:
        found = ITEM_ID.fullmatch(getattr(event.event, "id", ""))
        if found:
            key, number = (event.stream, found["hand"]), (int(found["number"]), int(found["place"]))
            if number < last.get(key, number):
                yield found[0]
            last[key] = number


def _broken(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except AssertionError as error:
        return [str(error)]
    return []


def check_streams(log: LiveLog, events: list[RecordedEvent]) -> None:
    """Require that the log and each of its streams are whole."""
    check_order(events)
    numbers: dict[int, list[int]] = {}
    for recorded in events:
        numbers.setdefault(recorded.position.slice, []).append(recorded.position.number)
    for found in numbers.values():
        assert sorted(found) == list(range(1, len(found) + 1)), "a position is missing"
    streams: dict[str, list[RecordedEvent]] = {}
    for recorded in events:
        streams.setdefault(recorded.stream, []).append(recorded)
    for stream, of_stream in streams.items():
        recorded_there = log.read(stream)
        check_chain(recorded_there)
        assert recorded_there == of_stream, f"{stream} is another when it is read alone"


def check_batches(events: list[RecordedEvent]) -> None:
    """Require that of each batch all items are there, or none."""
    sizes: dict[str, int] = {}
    there: Counter[str] = Counter()
    for recorded in events:
        found = ITEM_ID.fullmatch(getattr(recorded.event, "id", ""))
        if found:
            batch = f"{found['hand']}.{found['number']}"
            there[batch] += 1
            sizes[batch] = int(found["size"])
    assert {batch: count for batch, count in there.items() if count != sizes[batch]} == {}, "half a batch"
