"""The example of an agent whose steps are a graph does what it says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from refold import open as open_store
from refold.infrastructure.round_files import import_round_files
from tests.support.project import ROOT

EXAMPLE = ROOT / "examples" / "trajectory_of_an_agent.py"
REAL = ROOT.parent / "shared" / "data" / "tau_airline_100.json"


def play(*arguments: object) -> list[str]:
    """Run the example in a process of its own, and return the lines that it prints."""
    command = [sys.executable, str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()


def test_the_agent_answers_round_by_round(tmp_path: Path) -> None:
    """What failed is no active branch in its round; a description says who wrote it, and after what."""
    lines = play(tmp_path)

    assert lines[:5] == [
        "round 0: from 1 to 2 nodes; nobody went on from []",
        "round 1: from 3 to 9 nodes; nobody went on from ['Action(action00000)']",
        "round 2: from 11 to 14 nodes; nobody went on from []",
        "round 3: from 15 to 15 nodes; nobody went on from []",
        "run:mia/heron-air/1/0@27: None -> '' by heron, after None",
    ]
    # Several descriptions are written at once, and which comes first nobody knows.
    described = r"run:mia/heron-air/1/0@3[7-9]: '' -> 'What was found by find_booking.' by stand-in, after \S+@36"
    assert re.fullmatch(described, lines[5])
    assert lines[6] == "flowchart TD"


def test_the_second_time_nothing_is_answered_again(tmp_path: Path) -> None:
    """What it prints is read from the database."""
    first = play(tmp_path)
    with open_store(tmp_path / "agent.db") as store:
        before = store.now()

    assert play(tmp_path) == first
    with open_store(tmp_path / "agent.db") as store:
        assert store.now() == before


def test_the_files_of_the_rounds_hold_the_same_graph(tmp_path: Path) -> None:
    """Another store takes them in."""
    play(tmp_path)

    with open_store(tmp_path / "agent.db") as kept, open_store(":memory:") as other:
        imported = import_round_files(other, tmp_path / "heron-air", user_id="mia", session_id="heron-air")
        assert [one.run.run_id for one in imported] == [0, 1, 2, 3]
        ours, theirs = (store.run("mia", "heron-air", 3).graph() for store in (kept, other))
        assert (list(ours), ours.edges) == (list(theirs), theirs.edges)


@pytest.mark.skipif(not REAL.exists(), reason="shared/data is not beside this checkout")
def test_a_real_transcript_is_played(tmp_path: Path) -> None:
    """The first of a file, a round for each question."""
    first = json.loads(REAL.read_bytes())[0]["traj"]
    lines = play(tmp_path, REAL)

    rounds = [line for line in lines if line.startswith("round ")]
    assert len(rounds) == sum(message["role"] == "user" for message in first)
