"""Twenty writers are killed in mid-work, on SQLite and on PostgreSQL (there the client is killed)."""

import os
import random

import pytest

from .kill import kill_often

TIMES = 20
# Always the same seeds in CI, new ones at a desk; the moment of a kill is chance all the same.
SEED = 1 if os.environ.get("CI") == "true" else random.SystemRandom().randrange(10**6)


@pytest.mark.timeout(600)
def test_killed_on_sqlite() -> None:
    """What was acknowledged is there, batches are whole, and the next append works."""
    print(f"seed {SEED}")

    left = [found for _, found in kill_often(TIMES, seed=SEED)]

    assert len(left) == TIMES
    assert sum(found.acknowledged for found in left) > 0


@pytest.mark.timeout(600)
def test_killed_on_postgres(pg_url: str) -> None:
    """The same where the one that is killed is a client of the server."""
    print(f"seed {SEED}")

    left = [found for _, found in kill_often(TIMES, seed=SEED, url=pg_url)]

    assert len(left) == TIMES
    assert sum(found.acknowledged for found in left) > 0
