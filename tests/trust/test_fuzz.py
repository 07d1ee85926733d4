"""Random edits of a store at rest are refused, or change no answer; `scripts/fuzz` makes thousands of them."""

import random
from pathlib import Path

from tests.support.effort import IS_DEEP

from .fuzzing import Outcome, fuzz_file, fuzz_tables

COUNT = 2_000 if IS_DEEP else 30


def require_none_served(outcome: Outcome) -> None:
    """Require that nothing changed was served, and that some edits were noticed."""
    assert outcome.served == []
    assert outcome.refused > 0


def test_of_a_file(tmp_path: Path) -> None:
    """Bytes, stretches and rows of a file."""
    require_none_served(fuzz_file(tmp_path, COUNT, random.randrange(1 << 32)))


def test_of_tables(ready_pg_url: str, tmp_path: Path) -> None:
    """Rows and values of tables on PostgreSQL."""
    require_none_served(fuzz_tables(ready_pg_url, tmp_path, COUNT // 2, random.randrange(1 << 32)))
