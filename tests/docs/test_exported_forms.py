"""What the documents say of exported files, and of the tables of projections, is what the code writes."""

import re
from pathlib import Path

import refold
from refold.infrastructure.exchange import TakenIn, take_in_events
from refold.infrastructure.exchange.event_files import End, EventLine, Header
from refold.infrastructure.exchange.parquet import COLUMNS
from tests.docs.markdown import blocks, section, table_rows
from tests.support.project import ROOT

STORED = ROOT / "docs" / "reference" / "stored-format.md"
STANDING_BESIDE = {"view_..._shadow", "view_..._check", "view_..._shadow_N"}


def named_in(cell: str) -> list[str]:
    """Return what stands in a cell as code."""
    return re.findall(r"`([^`]+)`", cell)


def test_parquet_has_the_documented_columns() -> None:
    """Names and types, in order."""
    rows = table_rows(section(STORED, "Parquet files"))

    assert [(cells[0].strip("`"), cells[1].strip("`")) for cells in rows] == list(COLUMNS.items())


def test_files_of_events_have_the_documented_fields() -> None:
    """Every field of every line is in the table, and no other."""
    rows = table_rows(section(STORED, "Exported files"))
    fields = {name for line in (Header, EventLine, End) for name in line.__struct_fields__}

    assert {name for cells in rows for name in named_in(cells[0])} == fields


def test_the_documented_file_can_be_taken_in(tmp_path: Path) -> None:
    """The example is a whole file."""
    (example,) = (block.text for block in blocks(STORED) if block.text.startswith('{"refold"'))
    file = tmp_path / "example.refold"
    file.write_text(example, encoding="utf-8")

    with refold.open(":memory:") as store:
        assert take_in_events(store.log, file) == TakenIn(added=1, events=2)
        assert store.chat("a", create=False).items[0].id == "msg_1"


def test_the_tables_of_projections_are_documented() -> None:
    """There is a row for each projection of a store; those of runs share one."""
    rows = table_rows(section(STORED, "Views"))
    shown = {name for cells in rows for name in named_in(cells[0]) if name.startswith("view_")} - STANDING_BESIDE
    with refold.open(":memory:") as store:
        names = {f"view_{one.name}" for one in store.projections()}

    assert shown == {"view_run_..." if name.startswith("view_run_") else name for name in names}
