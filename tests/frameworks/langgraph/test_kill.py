"""A process is killed at any point of a run: the next one goes on, no reported tool runs again, nothing is lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import refold
from refold.langgraph import RefoldSaver
from tests.support.project import ROOT

from .graphs import everything, thread

MOMENTS_MIN = 30

# A process that has everything loaded forks another one for each run, and that kills itself before or after a save.
PROGRAM = """
import os, signal, sys, traceback
import refold
from refold.langgraph import RefoldSaver
from langgraph.types import Command
from tests.frameworks.langgraph import graphs

folder, durability = sys.argv[1:]

def run(place, diary, last):
    moments = iter(range(1_000))

    def note(line):
        with open(diary, "a") as file:
            file.write(line + "\\n")

    def pass_by():
        if next(moments) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    class Killed(RefoldSaver):
        def put(self, *args):
            pass_by()
            result = super().put(*args)
            pass_by()
            return result

        def put_writes(self, config, writes, task_id, task_path=""):
            pass_by()
            super().put_writes(config, writes, task_id, task_path)
            # In the background a checkpoint may be saved after writes on it, and a run goes on from saved ones only.
            is_saved = self.get_tuple(config) is not None
            if is_saved and any(channel == "messages" and value[0].type == "tool" for channel, value in writes):
                note("reported")
            pass_by()

    plain = graphs.tools

    def tools(state):
        note("ran")
        return plain(state)

    graphs.tools = tools
    with refold.open(place) as store:
        graph, config = graphs.everything(Killed(store)), graphs.thread()
        begun = graph.get_state(config).created_at is not None
        graph.invoke(None if begun else graphs.said("hello", "h1"), config, durability=durability)
        if graph.get_state(config).next:
            graph.invoke(Command(resume="yes"), config, durability=durability)

def forked(*args):
    child = os.fork()
    if not child:
        try:
            run(*args)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for moment in range(1_000):
    place, diary = f"{folder}/{moment}.db", f"{folder}/{moment}.txt"
    first = forked(place, diary, moment)
    with open(diary, "a") as file:
        file.write(f"ended {first}\\n")
    if first == 0:
        break
    with open(diary, "a") as file:
        file.write(f"ended {forked(place, diary, None)}\\n")
"""


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_killed_run_goes_on(tmp_path: Path, durability: str) -> None:
    """Whatever was reported before the kill is not done again; the state at the end is that of a whole run."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path), durability]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr

    moments = sorted(tmp_path.glob("*.txt"), key=lambda path: int(path.stem))
    for diary in moments:
        before, _, after = diary.read_text(encoding="utf-8").partition(f"ended {-signal.SIGKILL}\n")
        is_last = diary is moments[-1]
        assert before.endswith("ended 0\n") if is_last else after.endswith("ended 0\n"), done.stderr
        assert "reported" not in before or "ran" not in after, f"killed at moment {diary.stem}"
        with refold.open(diary.with_suffix(".db")) as store:
            state = everything(RefoldSaver(store)).get_state(thread())
            assert [one.id for one in state.values["messages"]] == ["h1", "m1", "tc1a", "tc1b", "m4", "i5"]
            assert state.values["notes"] == ["tools", "model", "heard yes", "work 0", "work 1", "work 2"]
            assert state.next == ()
            assert store.verify(processes=1).problems == ()
    assert len(moments) > MOMENTS_MIN
