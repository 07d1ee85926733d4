"""The results as text for a terminal, as Markdown for the docs, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from .rows import Row, Table

HEADERS = ("case", "database", "ours", "raw", "stock", "ours/raw", "stock/raw", "goal", "met")
DETAIL_HEADERS = ("case", "database", "first run", "raw's first", "p50", "p95", "p99", "mean", "mean/raw's")
PROCESSOR_HEADERS = ("case", "database", "ours", "raw", "stock", "ours/raw", "stock put", "put/raw")
NOTE = "Medians of the medians of blocks in turn."
DETAIL_NOTE = "Ours: the first run after opening, and the warm runs; work done at every 64th run is in the mean."
PROCESSOR_NOTE = (
    "Per item: the processor time of this process, work in the background included; and the elapsed time of the event"
    " store of `eventsourcing` alone, without its aggregates."
)
MET = {True: "yes", False: "NO", None: ""}
Results = Sequence[Row | Table]


def as_text(facts: Mapping[str, str], results: Results) -> str:
    """Return all tables with aligned columns."""
    parts = ["  ".join(f"{name}: {value}" for name, value in facts.items())]
    for table in _tables(results):
        widths = [max(map(len, column)) for column in zip(table.headers, *table.lines, strict=True)]
        lines = [table.headers, ["-" * width for width in widths], *table.lines]
        body = "\n".join("  ".join(map(_aligned, range(len(widths)), line, widths)).rstrip() for line in lines)
        parts.append("\n".join(part for part in (table.title, table.note, "", body) if part or part == ""))
    return "\n\n".join(parts)


def as_markdown(facts: Mapping[str, str], results: Results) -> str:
    """Return all tables in Markdown."""
    parts = ["\n".join(f"- {name}: {value}" for name, value in facts.items())]
    for table in _tables(results):
        rule = ["---"] + ["---:" for _ in table.headers[1:]]
        body = "\n".join("| " + " | ".join(line) + " |" for line in (table.headers, rule, *table.lines))
        parts.append("\n\n".join(part for part in (f"## {table.title}", table.note, body) if part))
    return "\n\n".join(parts) + "\n"


def as_json(facts: Mapping[str, str], results: Results) -> bytes:
    """Return everything that was measured as JSON."""
    rows = [result.as_json() for result in results if isinstance(result, Row)]
    tables = [result for result in results if isinstance(result, Table)]
    return msgspec.json.format(msgspec.json.encode({"facts": facts, "rows": rows, "tables": tables}))


def _tables(results: Results) -> list[Table]:
    rows = [result for result in results if isinstance(result, Row)]
    timed = [row for row in rows if row.stats["ours"].first]
    tables = [
        Table("Results", HEADERS, [_line(row) for row in rows], NOTE),
        Table("Details", DETAIL_HEADERS, [_details(row) for row in timed], DETAIL_NOTE),
        Table("Processor time", PROCESSOR_HEADERS, [_processor(row) for row in timed], PROCESSOR_NOTE),
        *[result for result in results if isinstance(result, Table)],
    ]
    return [table for table in tables if table.lines]


def _line(row: Row) -> list[str]:
    figures = [_figure(row, row.shown(name)) for name in ("ours", "raw", "stock")]
    ratios = [_ratio(row.to_raw(name)) for name in ("ours", "stock")]
    goal = row.goal.text(row.unit) if row.goal else ""
    return [row.label, row.database, *figures, *ratios, goal, MET[row.is_met]]


def _details(row: Row) -> list[str]:
    ours, raw, show = row.stats["ours"], row.stats.get("raw"), row.unit.show
    first_runs = [None if stats is None else stats.first_run for stats in (ours, raw)]
    firsts = [None if first is None else show(first) for first in first_runs]
    warm = [show(value) for value in (*map(ours.percentile, (50, 95, 99)), ours.mean)]
    figures = [_figure(row, value) for value in (*firsts, *warm)]
    return [row.label, row.database, *figures, _ratio(show(ours.mean) / show(raw.mean) if raw else None)]


def _processor(row: Row) -> list[str]:
    times = [row.stats[name].processor_time if name in row.stats else None for name in ("ours", "raw", "stock")]
    shown = ["-" if time is None else f"{1e6 * time:,.1f} µs" for time in times]
    ratio = times[0] / times[1] if times[0] and times[1] else None
    put = [_figure(row, row.shown("stock put")), _ratio(row.to_raw("stock put"))]
    return [row.label, row.database, *shown, _ratio(ratio), *put]


def _figure(row: Row, value: float | None) -> str:
    if value is None:
        return "-"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {row.unit.name}".rstrip()


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _aligned(place: int, text: str, width: int) -> str:
    return text.ljust(width) if place < 2 else text.rjust(width)
