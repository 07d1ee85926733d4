"""Real runs of the SDK on a session: what is kept, by whom it can be read, and that a killed run goes on."""

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


def test_a_run_that_was_killed_anywhere_goes_on(tmp_path: Path) -> None:
    """A tool whose output was recorded does not run again, nothing recorded is lost, and the answer is the same."""
    command = [sys.executable, "-m", "tests.frameworks.openai_agents.scripted_model", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    places = sorted(tmp_path.iterdir(), key=lambda place: int(place.name))
    # The question is saved; for each order the model is asked, the tool runs, and both are saved; then there is the
    # answer. The last process ran to its end.
    assert len(places) == 2 + len(ORDERS) * (1 + 2 + 2) + (1 + 2) + 1
    for place in places:
        with refold.open(place / "agents.db") as store:
            before = [item.model_dump() for item in store.chat("support-42").items]
        reported = [item["output"] for item in before if item["type"] == "function_call_output"]

        assert go_on(place) == "3 orders are in Lyon."

        ran = [int(line) for line in (place / "ran.txt").read_text().split()]
        assert all(ran.count(int(output.split(":")[0])) == 1 for output in reported), place.name
        assert set(ran) == set(ORDERS)
        with refold.open(place / "agents.db") as store:
            chat = store.chat("support-42")
            assert [item.model_dump() for item in chat.items][: len(before)] == before
            assert chat.pending_calls() == []
            assert store.verify().is_whole
