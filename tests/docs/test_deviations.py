"""The list of deviations is in order, and each row says what became of the seed's behaviour."""

import re

from tests.docs.markdown import table_rows
from tests.support.project import ROOT

ROWS = list(table_rows((ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")))
NUMBER = re.compile(r"([A-Z])(\d+)(?:\.(\d+)([a-z]?))?")


def test_rows_are_in_order() -> None:
    """Each number stands there once, in the order of the list it comes from."""
    found = [NUMBER.fullmatch(cells[0]) for cells in ROWS]
    keys = [(m[1], int(m[2]), int(m[3] or 0), m[4] or "") for m in found if m]

    assert len(keys) == len(ROWS)
    assert keys == sorted(set(keys))


def test_each_row_says_what_became_of_it() -> None:
    """Repaired, held or not yet: one of the three comes first."""
    undecided = [cells[0] for cells in ROWS if not cells[2].startswith(("Repaired", "Held", "Not yet"))]

    assert undecided == []


def test_each_repair_has_its_reason() -> None:
    """A reader who meets another answer than the seed's can see why."""
    unexplained = [cells[0] for cells in ROWS if cells[2].startswith("Repaired") and not cells[3].strip()]

    assert unexplained == []
