"""Everything that `scripts/crash` throws, a few times each: what was acknowledged is there once, and all goes on."""

import os
import random

import pytest

from .endings import ENDINGS
from .kill import play

TIMES = {"kill": 8, "interrupt": 200, "backends": 6, "restore": 1, "stop-fast": 1, "stop-immediate": 1}
CASES = [(kind, database) for kind, ending in ENDINGS.items() for database in ending.databases]
# Always the same seeds in CI, new ones at a desk; the moment of a kill is chance all the same.
SEED = 1 if os.environ.get("CI") == "true" else random.SystemRandom().randrange(10**6)


@pytest.mark.parametrize(("kind", "database"), CASES, ids=map("-".join, CASES))
def test_thrown(kind: str, database: str, request: pytest.FixtureRequest) -> None:
    """Nothing that was acknowledged is lost, doubled or out of order; the log is whole, and the next append works."""
    server = request.getfixturevalue("durable_pg_server") if database == "postgres" else None
    print(f"seed {SEED}")

    result = play(kind, times=TIMES.get(kind, 3), seed=SEED, server=server)

    assert result.found.problems == []
    assert result.thrown >= TIMES.get(kind, 3)
    assert result.found.acknowledged > 0
