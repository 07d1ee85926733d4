"""What is made at its first use is made by several threads at once, and in children forked meanwhile."""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import refold
from tests.support.effort import IS_DEEP
from tests.support.every_kind import fill

TIMES = 200 if IS_DEEP else 1
SEED = 1 if os.environ.get("CI") == "true" else random.SystemRandom().randrange(10**6)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_threads_and_children_use_a_store_first_at_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """None ends, hangs, or is told what is not so."""
    place = str(tmp_path / "store.db") if kind == "sqlite" else str(request.getfixturevalue("pg_url"))
    with refold.open(place) as store:
        asyncio.run(fill(store))
        store.contexts()

    for seed in range(SEED, SEED + TIMES):
        # Python warns of forks beside threads from 3.12 on.
        words = [
            "-X",
            "faulthandler",
            "-W",
            "ignore::DeprecationWarning",
            "-m",
            "tests.crash.first_use",
            place,
            str(seed),
        ]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)

        assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0), seed
