"""The demo runs, shows what it should, and fails where something fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import environment
from tests.importing.transcripts import TALK, run, written
from tests.support.project import ROOT

FORKED = ["fork", "evict", "restore", "log"]
GENERATOR = ROOT / "examples" / "transcripts.py"


def demonstrated(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the demo with its temporary folder in `folder`."""
    command = [sys.executable, str(ROOT / "scripts" / "demo.py"), *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment(TMPDIR=str(folder)), capture_output=True, encoding="utf-8", timeout=110
    )


def made(folder: Path, *arguments: str) -> bytes:
    """Return the file that the generator writes."""
    path = folder / "made.json"
    subprocess.run([sys.executable, str(GENERATOR), str(path), *arguments], check=True, capture_output=True)
    return path.read_bytes()


def test_it_shows_everything(tmp_path: Path) -> None:
    """Every command, in order, with what it prints; and where the database lies."""
    done = demonstrated(tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    shown = [line.split()[2] for line in done.stdout.splitlines() if line.startswith("$ refold ")]
    assert shown == ["import", "contexts", "show", "show", "diff", "log", *FORKED, "import", "stats"]
    assert "8 contexts: 8 added" in done.stdout
    assert "8 contexts: 8 unchanged" in done.stdout
    assert "8 conversations, as OpenAI messages, are equal to the file's." in done.stdout
    (database,) = tmp_path.glob("*/refold.db")
    assert str(database) in done.stdout


def test_it_takes_a_file_of_ones_own(tmp_path: Path) -> None:
    """However short; nothing is written beside it."""
    own = tmp_path / "own"
    own.mkdir()
    done = demonstrated(tmp_path, written(own / "mine.json", [run(0, *TALK), run(1)]))

    assert (done.returncode, done.stderr) == (0, "")
    assert "2 conversations, as OpenAI messages, are equal to the file's." in done.stdout
    assert [path.name for path in own.iterdir()] == ["mine.json"]


@pytest.mark.parametrize("content", ["", "[1]"])
def test_it_fails_where_a_step_fails(tmp_path: Path, content: str) -> None:
    """With the step's own word, and no traceback."""
    done = demonstrated(tmp_path, written(tmp_path / "bad.json", content))

    assert done.returncode == 1
    assert "bad.json" in done.stderr
    assert done.stderr.endswith("the demo stopped: a command exited with 1\n")


def test_the_transcript_is_always_the_same(tmp_path: Path) -> None:
    """The same numbers give the same bytes."""
    first = made(tmp_path, "--tasks", "3", "--trials", "2")

    assert made(tmp_path, "--tasks", "3", "--trials", "2") == first
    assert len(json.loads(first)) == 6


def test_the_transcript_is_like_a_real_one(tmp_path: Path) -> None:
    """Calls with and without text beside them, tools with names, ids that repeat."""
    runs = json.loads(made(tmp_path))
    messages = [message for one in runs for message in one["traj"]]
    calls = [message for message in messages if message.get("tool_calls")]
    ids = [call["id"] for one in runs for message in one["traj"] for call in message.get("tool_calls", ())]

    assert {*runs[0]} == {"task_id", "trial", "reward", "info", "traj"}
    assert {message["role"] for message in messages} == {"system", "user", "assistant", "tool"}
    assert {message["content"] is None for message in calls} == {True, False}
    assert len({*ids}) < len(ids)
