"""The loop in the guide to going on after a crash, killed at every step: it ends with each tool run once."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import refold
from tests.docs.markdown import blocks
from tests.support.project import ROOT

LOOP = blocks(ROOT / "docs" / "how-to" / "resume.md")[0].text
ASKED = ("support-42", "request-1", "Where are my orders?")
KILLED = """
import os, signal, sys

def run_tool(name, arguments, key, run=run_tool):
    output = run(name, arguments, key)
    if name == "look_up" and len(done) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return output

answer(refold.open(sys.argv[1]), *sys.argv[2:])
"""


class Killed(BaseException):
    """The end of the loop, at a line that it has not run."""


class Program:
    """The program of the guide, with a world of its own, which outlives every run."""

    def __init__(self, place: Path) -> None:
        self.place, self.lines = place, 0
        # What is recorded at the end, without ids and times.
        self.items: list[tuple[str, str]] = []
        self.names: dict[str, Any] = {}
        exec(compile(LOOP, "resume.md", "exec"), self.names)

    def run(self, lines: int = sys.maxsize) -> str | None:
        """Run the loop to its end, or until it has run so many lines; return its answer, or None."""
        self.lines = 0
        answer = self.names["answer"]

        def stop(frame: FrameType, event: str, _: object) -> Any:
            if event == "line":
                if self.lines == lines:
                    raise Killed
                self.lines += 1
            return stop

        with refold.open(self.place, synchronous="NORMAL") as store:
            before = sys.gettrace()
            sys.settrace(lambda frame, *_: stop if frame.f_code is answer.__code__ else None)
            try:
                result: str = answer(store, *ASKED)
            except Killed:
                return None
            finally:
                sys.settrace(before)
            fields = ("role", "name", "arguments", "content", "output")
            items = store.chat(ASKED[0], create=False).to_dict()["items"]
            self.items = [(item["type"], str([item.get(field) for field in fields])) for item in items]
        return result


def programs(folder: Path) -> Iterator[Program]:
    """Yield a program in a folder of its own, as often as one is asked for."""
    for number in range(1_000):
        place = folder / str(number)
        place.mkdir()
        yield Program(place / "agents.db")


def test_the_loop_is_killed_at_every_step(tmp_path: Path) -> None:
    """Before each line in turn: the next run gives the same answer and record, and each tool has run once."""
    fresh = programs(tmp_path)
    whole = next(fresh)
    answer, recorded, lines = whole.run(), whole.items, whole.lines

    assert answer == "Order 8 is delivered. Order 7 is lost: refund of order 7."
    assert lines > 30
    for line in range(lines):
        program = next(fresh)
        assert program.run(line) is None
        assert (program.run(), program.items) == (answer, recorded), line
        assert sorted(program.names["done"].values()) == ["delivered", "lost", "refund of order 7"], line


def test_a_process_is_killed_in_a_tool(tmp_path: Path) -> None:
    """By `kill -9`, when the second tool has run and its output is not recorded: that tool alone is run again."""
    program = Program(tmp_path / "agents.db")
    command = [sys.executable, "-c", LOOP + KILLED, str(program.place), *ASKED]
    killed = subprocess.run(command, check=False, cwd=ROOT)
    with refold.open(program.place) as store:
        [waiting] = store.chat(ASKED[0], create=False).pending_calls()

    assert killed.returncode == -signal.SIGKILL
    assert [call.call_id for call in waiting.calls] == ["c2"]
    assert program.run() == "Order 8 is delivered. Order 7 is lost: refund of order 7."
    assert sorted(program.names["done"].values()) == ["delivered", "refund of order 7"]
