"""The demo runs, shows what it should, and fails where something fails."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from scripts import demo
from tests.cli.running import environment
from tests.cli.running import refold as run_command
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


@pytest.fixture
def in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands of a demo run in this process: one demo, in `test_it_shows_everything`, starts them all."""

    def run_here(command: Sequence[str], *, cwd: Path, check: bool, **_: Any) -> subprocess.CompletedProcess[bytes]:
        assert (list(command[: len(demo.REFOLD)]), check) == (demo.REFOLD, True)
        with chdir(cwd):
            ended = run_command(*command[len(demo.REFOLD) :])
        print(ended.out, end="")
        print(ended.err, end="", file=sys.stderr)
        if ended.code:
            raise subprocess.CalledProcessError(ended.code, command)
        return subprocess.CompletedProcess(command, 0, ended.out.encode())

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", run_here)
    for name in {*os.environ} - {*environment()}:
        monkeypatch.delenv(name)


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


@pytest.mark.usefixtures("in_process")
def test_it_takes_a_file_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However short; nothing is written beside it."""
    own = tmp_path / "own"
    own.mkdir()
    demo.main(str(written(own / "mine.json", [run(0, *TALK), run(1)])))

    shown, faults = capsys.readouterr()
    assert faults == ""
    assert "2 conversations, as OpenAI messages, are equal to the file's." in shown
    assert [path.name for path in own.iterdir()] == ["mine.json"]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("content", ["", "[1]"])
def test_it_fails_where_a_step_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    """With the step's own word, and no traceback."""
    with pytest.raises(SystemExit, match="the demo stopped: a command exited with 1"):
        demo.main(str(written(tmp_path / "bad.json", content)))

    assert "bad.json" in capsys.readouterr().err


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
