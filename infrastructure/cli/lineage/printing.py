"""The history of all contexts as lines for people, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import click

from ...times import exact
from ..naming import counted, source_of
from ..shapes import print_json_list
from ..terminal import aligned, cut, is_cut_short, one_line, paint, terminal_width
from ..times import absolute
from .lanes import drawn
from .points import Family, Point

LANES_MAX = 24
# A lane takes two columns, and lanes a third of the line.
COLUMNS_A_LANE = 6
Line = tuple[str, Point]


def print_lineage(families: Sequence[Family], *, as_json: bool) -> None:
    """Print the points of families, a line for each, the lanes of their contexts in front."""
    lanes_max = min(LANES_MAX, terminal_width() // COLUMNS_A_LANE) if is_cut_short() else LANES_MAX
    if as_json:
        print_json_list(_shape(point) for family in families for _, point in drawn(family, lanes_max))
        return
    # Contexts that have nothing to do with others follow each other in even columns.
    for is_single, some in groupby(families, key=lambda family: len(family) == 1):
        lines = [list(drawn(family, lanes_max)) for family in some]
        for block in [[line for one in lines for line in one]] if is_single else lines:
            _print_block(block)


def _print_block(block: Sequence[Line]) -> None:
    rows = [_cells(lanes, point) for lanes, point in block]
    for (lanes, _), line in zip(block, aligned(rows), strict=True):
        shown = cut(line, terminal_width()) if is_cut_short() else line
        click.echo(lanes.replace("*", paint("*", "yellow")) + shown[len(lanes) :])


def _cells(lanes: str, point: Point) -> tuple[str, ...]:
    place = one_line(f"{point.stream.removeprefix('chat:')}@{point.version}")
    return lanes, place, absolute(point.recorded_at), one_line(", ".join(_said(point)))


def _said(point: Point) -> Iterator[str]:
    by = f" by {point.actor}" if point.actor else ""
    if point.sources:
        newest = point.sources[-1]
        source = source_of(newest.stream, newest.version)
        how = f" ({point.how})" if point.how not in ("", "full") else ""
        match point.kind:
            case "restored" if len(point.sources) > 1:
                yield f"goes back over {counted(len(point.sources), 'round')}, the last of them {source}{by}"
            case "restored":
                yield f"goes back over {source}{by}"
            case "merged":
                yield f"merged {source}{how}{by}"
            case _:
                yield f"{point.kind} from {source}{how}{by}"
    elif point.kind == "opened":
        yield "opened"
    if point.is_head:
        yield "head"


def _shape(point: Point) -> dict[str, Any]:
    return {
        "stream": point.stream,
        "version": point.version,
        "kind": point.kind,
        "is_head": point.is_head,
        "how": point.how or None,
        "recorded_at": exact(point.recorded_at),
        "actor": point.actor or None,
        "sources": [{"stream": source.stream, "version": source.version} for source in point.sources],
    }
