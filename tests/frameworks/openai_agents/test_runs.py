"""Real runs of the SDK on a session: what is kept, by whom it can be read, and that a killed run goes on."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from agents import Runner, set_tracing_disabled

import refold
from refold.openai_agents import RefoldSession

from .scripted_model import ORDERS, ScriptedModel, clerk, go_on


@pytest.fixture(autouse=True)
def no_tracing() -> None:
    """The SDK sends nothing anywhere."""
    set_tracing_disabled(True)


async def test_a_run_is_kept_once(store: refold.Store) -> None:
    """Each question, call, output and answer is one item, also when a second run reads all of it."""
    ran: list[int] = []
    session = RefoldSession(store, "s")
    agent = clerk(ran.append, ScriptedModel())
    first = await Runner.run(agent, "Where are my orders?", session=session)
    second = await Runner.run(agent, "And now?", session=session)

    assert (first.final_output, second.final_output) == ("3 orders are in Lyon.",) * 2
    assert ran == [*ORDERS, *ORDERS]
    kinds = [item.type for item in store.chat("s").items]
    one_run = ["message", *["function_call", "function_call_output"] * 3, "message"]
    assert kinds == one_run * 2
    assert session.chat.pending_calls() == []
    assert len(session.chat.to_openai_messages()) == 2 * (1 + 6 + 1)
    assert session.chat.version == 1 + len(kinds)


@pytest.mark.parametrize("die_before", [1, 2, 3, 4])
def test_a_killed_run_goes_on(tmp_path: Path, die_before: int) -> None:
    """A tool whose output was recorded does not run again, and the answer is the same."""
    command = [sys.executable, "-m", "tests.frameworks.openai_agents.scripted_model", str(tmp_path)]
    killed = subprocess.run([*command, str(die_before)], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with refold.open(tmp_path / "agents.db") as store:
        kept = [item for item in store.chat("support-42").items if isinstance(item, refold.FunctionCallOutput)]

    assert go_on(tmp_path, die_before=0) == "3 orders are in Lyon."

    ran = [int(line) for line in (tmp_path / "ran.txt").read_text().split()]
    for output in kept:
        assert ran.count(int(output.output.split(":")[0])) == 1
    assert set(ran) == set(ORDERS)
