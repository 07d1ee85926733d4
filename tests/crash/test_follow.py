"""Writers, workers and a subscriber are killed in mid-work, and nothing is missed or seen twice (P9)."""

import os
import random
from pathlib import Path

import pytest

from tests.support.effort import IS_DEEP

from .follow import WRITERS, follow

# Each kill starts a process, half a second of CPU: more of them, and more events, are thrown by scripts/soak.
EVENTS, KILLS = (20_000, 100) if IS_DEEP else (1_500, 7)
SEED = 1 if os.environ.get("CI") == "true" else random.SystemRandom().randrange(10**6)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_followed_while_all_are_killed(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Three projections are what one fold of the log gives, and a subscriber was given each event once."""
    print(f"seed {SEED}")
    place = str(tmp_path / "log.db") if kind == "sqlite" else str(request.getfixturevalue("pg_url"))

    found = follow(place, tmp_path, events=EVENTS, kills=KILLS, seed=SEED)

    assert found.events >= EVENTS
    assert found.kills >= KILLS + WRITERS
