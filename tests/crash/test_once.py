"""Sixteen writers, two subscribers and the server are killed on PostgreSQL: each event is there once (P9, P10)."""

import os
import random
from pathlib import Path

import pytest

from tests.support.effort import IS_DEEP

from .once import experiment, server_of_its_own

IS_CI = os.environ.get("CI") == "true"
EVENTS, KILLS = (200_000, 60) if IS_DEEP else (50_000 if IS_CI else 10_000, 5)
SEED = 1 if IS_CI else random.SystemRandom().randrange(10**6)


@pytest.mark.timeout(3_600)
def test_each_event_once(tmp_path: Path) -> None:
    """Transactions of others are held open meanwhile, with old ids and with the lock of a slice."""
    print(f"seed {SEED}")
    with server_of_its_own() as (server, url):
        found = experiment(server, url, tmp_path, events=EVENTS, kills=KILLS, seed=SEED)

    assert found.acknowledged > EVENTS / 2
    assert set(found.kills) >= {"writers", "subscriber", "server"}
