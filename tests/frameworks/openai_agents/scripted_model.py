"""A model of the SDK that says what a script has, and a run in a process of its own that can be killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import refold
from refold.openai_agents import RefoldSession

# The orders that the model looks up, one call each, before it answers.
ORDERS = (7, 8, 9)


class ScriptedModel(Model):
    """It calls `track` for each order whose output it has not seen, then sums up; `before` is called each time."""

    def __init__(self, before: Callable[[list[Any]], object] = lambda _: None) -> None:
        self._before = before

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        """Answer by what the input has since its last question."""
        given = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        self._before(given)
        last = max(index for index, entry in enumerate(given) if entry.get("role") == "user")
        outputs = [entry["output"] for entry in given[last:] if entry.get("type") == "function_call_output"]
        asked = [order for order in ORDERS if not any(str(output).startswith(f"{order}:") for output in outputs)]
        output: Any = _call(asked[0], len(given)) if asked else _message(f"{len(outputs)} orders are in Lyon.")
        return ModelResponse(
            output=[output], usage=Usage(requests=1, input_tokens=9, output_tokens=3), response_id=None
        )

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """The tests do not stream."""
        raise NotImplementedError


def _call(order: int, number: int) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call",
        id=f"fc_{number}",
        call_id=f"call_{number}",
        name="track",
        arguments=f'{{"order": {order}}}',
    )


def _message(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="msg_1", type="message", role="assistant", status="completed", content=[part])


def clerk(ran: Callable[[int], object], model: Model, *, needs_approval: bool = False) -> Agent[Any]:
    """Return an agent with the tool `track`, which calls `ran`."""

    @function_tool(needs_approval=needs_approval)
    def track(order: int) -> str:
        """Say where an order is."""
        ran(order)
        return f"{order}: Lyon"

    return Agent(name="clerk", instructions="Be brief.", tools=[track], model=model)


class Watched(RefoldSession):
    """A session that calls `passed` before and after it records entries."""

    passed: Callable[[], object]

    def _add(self, entries: Any) -> None:
        self.passed()
        super()._add(entries)
        self.passed()


def go_on(folder: Path, passed: Callable[[], object] = lambda: None) -> str:
    """Run the agent on the session of a folder to its end; `passed` is called at every point where it may be killed."""
    set_tracing_disabled(True)

    def ran(order: int) -> None:
        passed()
        with (folder / "ran.txt").open("a") as file:
            file.write(f"{order}\n")
        passed()

    with refold.open(folder / "agents.db") as store:
        session = Watched(store, "support-42")
        session.passed = passed
        question: Any = [] if session.chat.items else "Where are my orders?"
        # `Runner.run_sync` leaves a loop behind that nobody closes.
        result = asyncio.run(Runner.run(clerk(ran, ScriptedModel(lambda _: passed())), question, session=session))
        return str(result.final_output)


def die_at(folder: Path, point: int) -> None:
    """Run the agent until it has passed so many points; then no code of this process runs any more."""
    passed = 0

    def count() -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)

    go_on(folder, count)


if __name__ == "__main__":
    # A process for each point. It is forked, since the import of the SDK takes longer than a run.
    for number in range(1, 100):
        place = Path(sys.argv[1]) / str(number)
        place.mkdir()
        child = os.fork()
        if child == 0:
            die_at(place, number)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
            break
