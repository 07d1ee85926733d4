"""The columns of the rows of every projection that each store keeps, as they were first written."""

import json

import pytest

from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.store import column_texts
from refold.projections.contract import Projection

from .files import rows_file


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda one: one.name)
def test_a_version_keeps_its_columns(projection: Projection) -> None:
    """Stores have a table of this version, and questions to it fail if other code expects other columns."""
    path, columns = rows_file(projection), column_texts(projection.row)

    assert path.exists(), "call `python -m tests.golden.write`, which writes the file of a new version"
    written = json.loads(path.read_text(encoding="utf-8"))
    assert columns == written, f"raise `version` of {projection.name}: stores with its rows make them anew then"
