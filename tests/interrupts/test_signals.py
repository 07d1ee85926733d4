"""Real signals, at any moment: what was acknowledged is there once, and the process goes on."""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import refold
from refold.domain.chat.events import MessageAdded
from tests.contract.stores import start_python
from tests.contract.writing import everything

INTERRUPTS = 20_000 if os.environ.get("REFOLD_DEEP") == "1" else 400
SECONDS_MAX = 1_800


@pytest.mark.timeout(SECONDS_MAX)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_interrupts_at_random(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Appends, transactions, queues, edits and projections, each now and then interrupted by what a handler raises."""
    place = str(request.getfixturevalue("pg_url")) if kind == "postgres" else str(tmp_path / "log.db")
    program = start_python("tests.interrupts.interrupted", place, str(INTERRUPTS), "7", stderr=subprocess.PIPE)
    try:
        acknowledged, said = program.communicate(timeout=SECONDS_MAX)
    finally:
        program.kill()

    # Python says on stderr which callbacks of weak references were interrupted; nothing depends on them.
    assert program.returncode == 0, said
    with refold.open(place) as store:
        kept = Counter(one.event.id for one in everything(store.log) if isinstance(one.event, MessageAdded))
        assert [one for one in json.loads(acknowledged) if kept[one] != 1] == []
        assert max(kept.values()) == 1
        assert store.verify().is_whole
