"""The log as a Parquet file: its columns as documented, a row for each event, in the order of the log."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.infrastructure.exchange import parquet as exporting
from refold.infrastructure.exchange.parquet import COLUMNS, export_parquet
from refold.infrastructure.log.codec import tag_of
from refold.infrastructure.views.shapes import plain_fields
from tests.contract.writing import everything
from tests.support.every_kind import LARGE, fill


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def row_of(event: refold.RecordedEvent) -> dict[str, Any]:
    """Return the row of an event, column by column as they are documented."""
    kind, _, context = event.stream.partition(":")
    return {
        "stream": event.stream,
        "kind": kind,
        "context": context,
        "version": event.version,
        "slice": event.position.slice,
        "position": event.position.number,
        "recorded_at": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event.recorded_at),
        "type": tag_of(event.event),
        "actor": event.meta.actor,
        "correlation_id": event.meta.correlation_id,
        "causation": event.meta.causation,
        "idempotency_key": event.meta.idempotency_key,
        "payload": plain_fields(event.event, event.stream),
        "digest": event.digest,
    }


async def test_every_event_is_a_row(store: refold.Store, tmp_path: Path) -> None:
    """Every kind of event, in the order of the log, with all that the log has of it; the payload is JSON."""
    await fill(store)
    store.name_moment("here")
    events = everything(store.log)

    count = export_parquet(store.log, tmp_path / "log.parquet")

    rows = [{**row, "payload": json.loads(row["payload"])} for row in rows_of(tmp_path / "log.parquet")]
    assert count == len(rows) == len(events)
    for row, event in zip(rows, events, strict=True):
        assert row == {**row_of(event), "payload": json.loads(json.dumps(plain_fields(event.event, event.stream)))}


def test_its_columns(tmp_path: Path) -> None:
    """Names and types, in this order, for good; also of a file without rows."""
    with refold.open(":memory:") as store:
        assert export_parquet(store.log, tmp_path / "empty") == 0
        store.chat("a").add_message("user", "one")
        export_parquet(store.log, tmp_path / "full")

    for name in ("empty", "full"):
        schema = parquet.read_schema(tmp_path / name)
        assert {field.name: str(field.type) for field in schema} == COLUMNS
        assert list(COLUMNS) == schema.names == list(row_of_columns())
    assert schema.field("recorded_at").type == arrow.timestamp("us", "UTC")


def row_of_columns() -> tuple[str, ...]:
    """Return the columns as the documentation has them."""
    return (
        "stream", "kind", "context", "version", "slice", "position", "recorded_at", "type", "actor", "correlation_id",
        "causation", "idempotency_key", "payload", "digest",
    )  # fmt: skip


def test_some_streams(store: refold.Store, tmp_path: Path) -> None:
    """Those that are named, and no others; one that there is not is an error, and the file stays."""
    for name in "abc":
        store.chat(name).add_message("user", name)
    path = tmp_path / "some"

    assert export_parquet(store.log, path, ["chat:a", "chat:c", "chat:a"]) == 4
    assert sorted(row["context"] for row in rows_of(path)) == ["a", "a", "c", "c"]
    assert export_parquet(store.log, path, "chat:b") == 2
    before = path.read_bytes()
    with pytest.raises(NotFoundError, match="chat:x"):
        export_parquet(store.log, path, ["chat:a", "chat:x"])
    assert (path.read_bytes(), list(tmp_path.glob("*.tmp"))) == (before, [])


def test_piece_by_piece(store: refold.Store, tmp_path: Path) -> None:
    """Behind a moment, what was recorded since: the pieces together are the whole."""
    moments, wanted = [], 0
    for number in range(3):
        moments.append(store.now())
        store.chat(f"c{number}").add_message("user", "one")
        store.pool("p")

    for number, moment in enumerate(moments):
        export_parquet(store.log, tmp_path / "rest", after=moment)
        rows = rows_of(tmp_path / "rest")
        wanted = sum(head for _, head in store.now().heads) - sum(head for _, head in moment.heads)
        assert (len(rows), {row["context"] for row in rows} & {f"c{n}" for n in range(number)}) == (wanted, set())
    assert export_parquet(store.log, tmp_path / "none", after=store.now()) == 0


@pytest.mark.parametrize(
    ("events_max", "bytes_max", "sizes"),
    [
        (1, 1 << 30, [5, 5, 5, 5, 4]),
        (5, 1 << 30, [5, 5, 5, 5, 4]),
        (6, 1 << 30, [10, 10, 4]),
        (65_536, 1, [5, 5, 5, 5, 4]),
        (65_536, 1 << 16, [20, 4]),
    ],
)
def test_groups_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events_max: int, bytes_max: int, sizes: list[int]
) -> None:
    """A group ends with the page that fills it; the file has all rows, in order, and each group is reported."""
    for name, value in (("PAGE_EVENTS", 5), ("ROW_GROUP_EVENTS", events_max), ("ROW_GROUP_BYTES", bytes_max)):
        monkeypatch.setattr(exporting, name, value)
    told: list[tuple[int, int]] = []
    with refold.open(":memory:") as store:
        for number in range(23):
            store.chat("a").add_message("user", LARGE if number % 5 == 0 else "short")
        export_parquet(store.log, tmp_path / "log", progress=lambda *done: told.append(done))

    assert [row["version"] for row in rows_of(tmp_path / "log")] == list(range(1, 25))
    groups = parquet.ParquetFile(tmp_path / "log")
    assert [groups.metadata.row_group(number).num_rows for number in range(groups.num_row_groups)] == sizes
    assert told == [(sum(sizes[:number]),) * 2 for number in range(1, len(sizes) + 1)]
    groups.close()


@pytest.mark.parametrize(("beyond", "first"), [(0, 5), (1, 10)])
def test_a_group_is_full_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int, first: int) -> None:
    """Its payloads count as the file has them."""
    monkeypatch.setattr(exporting, "PAGE_EVENTS", 5)
    with refold.open(":memory:") as store:
        for number in range(11):
            store.chat("a").add_message("user", f"text {number}")
        export_parquet(store.log, tmp_path / "log")
        size = sum(len(row["payload"]) for row in rows_of(tmp_path / "log")[:5])
        monkeypatch.setattr(exporting, "ROW_GROUP_BYTES", size + beyond)
        export_parquet(store.log, tmp_path / "log")

    with parquet.ParquetFile(tmp_path / "log") as groups:
        assert groups.metadata.row_group(0).num_rows == first


@pytest.mark.parametrize("missing", ["pyarrow", "pyarrow.parquet"])
def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """The error says what to install, and a file that was there stays."""
    (tmp_path / "log").write_text("mine")
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delattr(arrow, "parquet", raising=False)

    with refold.open(":memory:") as store, pytest.raises(InvalidInputError, match=r'pip install "refold\[parquet\]"'):
        export_parquet(store.log, tmp_path / "log")
    assert (tmp_path / "log").read_text() == "mine"


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    """A folder in its place is an error of Refold's own, and nothing is left behind."""
    with refold.open(":memory:") as store, pytest.raises(InvalidInputError, match="is no regular file"):
        export_parquet(store.log, tmp_path)
    assert list(tmp_path.parent.glob("*.tmp")) == []


@pytest.mark.parametrize("text", ["\x00", "\U0001f600", '{"a":1}', "\u2028", "漢" * 3_000])
def test_hostile_texts(tmp_path: Path, text: str) -> None:
    """They stand in the payload as they are."""
    with refold.open(":memory:") as store:
        with refold.acting(actor=text):
            store.chat("a").add_message("user", text)
        export_parquet(store.log, tmp_path / "log")

    row = rows_of(tmp_path / "log")[-1]
    assert (json.loads(row["payload"])["content"], row["actor"]) == ([text], text)
