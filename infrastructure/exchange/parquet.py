"""
The log as a Parquet file, for DuckDB, Polars, Spark and other tools that read tables.

The columns are stable: new ones may be added at the end, and none changes its meaning.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ...domain.arguments import require_functions, require_path, require_texts
from ...domain.errors import ContextNotFoundError, InvalidInputError
from ...domain.ids import split_stream_id
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog
from ...domain.positions import BEGINNING, Moment
from ..log.codec import tag_of
from ..views.shapes import plain_fields
from .event_files import Progress, pages_up_to, writing_file

PAGE_EVENTS = 2_048
# Limits of a group of rows, which is held in memory until it is written.
ROW_GROUP_EVENTS = 65_536
ROW_GROUP_BYTES = 64 << 20
# Name and Arrow type of each column, in order.
COLUMNS = {
    "stream": "string",
    "kind": "string",
    "context": "string",
    "version": "int64",
    "slice": "int32",
    "position": "int64",
    "recorded_at": "timestamp[us, tz=UTC]",
    "type": "string",
    "actor": "string",
    "correlation_id": "string",
    "causation": "string",
    "idempotency_key": "string",
    "payload": "string",
    "digest": "binary",
}
PAYLOAD = list(COLUMNS).index("payload")
_json = msgspec.json.Encoder().encode


def export_parquet(
    log: LiveLog,
    path: str | os.PathLike[str],
    streams: Iterable[str] | None = None,
    *,
    after: Moment = BEGINNING,
    progress: Progress | None = None,
) -> int:
    """
    Write the events after a moment, of some streams (`kind:id`) or of all, into a Parquet file; return their number.

    The rows come in the order of the log; `payload` is the event as JSON, without the fields that have their default;
    `slice` is -1 where the log has one sequence. The file is replaced as a whole. `progress` is called with the events
    written so far, twice.

    Raises:
        NotFoundError: there is no such context; nothing was written.
        InvalidInputError: the package for it is missing: install `refold[parquet]`; or the file cannot be written, or
            is a file of the log itself.
    """
    require_functions(progress=progress)
    arrow, parquet = _packages()
    wanted = None if streams is None else frozenset(require_texts(streams, "the streams"))
    unknown = sorted(stream for stream in wanted or () if not log.head(stream))
    if unknown:
        raise ContextNotFoundError(unknown[0])
    schema = arrow.schema([(name, _type(arrow, kind)) for name, kind in COLUMNS.items()])
    written = 0
    with (
        writing_file(require_path(path), log) as file,
        parquet.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for rows in _groups(log, wanted, after):
            writer.write_table(_table(arrow, schema, rows))
            written += len(rows)
            if progress is not None:
                progress(written, written)
    return written


def _groups(log: LiveLog, wanted: frozenset[str] | None, after: Moment) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of the wanted events, one group of rows at a time."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for events in pages_up_to(log, limit=PAGE_EVENTS, after=after):
        more = [_row(event) for event in events if wanted is None or event.stream in wanted]
        rows += more
        size += sum(len(row[PAYLOAD]) for row in more)
        if len(rows) >= ROW_GROUP_EVENTS or size >= ROW_GROUP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _packages() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidInputError('Parquet files take another package: pip install "refold[parquet]"') from error
    return pyarrow, pyarrow.parquet


def _type(arrow: Any, kind: str) -> Any:
    return arrow.timestamp("us", tz="UTC") if kind.startswith("timestamp") else arrow.type_for_alias(kind)


def _row(recorded: RecordedEvent) -> tuple[Any, ...]:
    kind, context = split_stream_id(recorded.stream)
    meta = recorded.meta
    return (
        recorded.stream,
        kind,
        context,
        recorded.version,
        recorded.position.slice,
        recorded.position.number,
        recorded.recorded_at,
        tag_of(recorded.event),
        meta.actor,
        meta.correlation_id,
        meta.causation,
        meta.idempotency_key,
        _json(plain_fields(recorded.event, recorded.stream)).decode(),
        recorded.digest,
    )


def _table(arrow: Any, schema: Any, rows: list[tuple[Any, ...]]) -> Any:
    columns = zip(*rows, strict=True)
    arrays = [arrow.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return arrow.Table.from_arrays(arrays, schema=schema)
