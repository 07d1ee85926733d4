"""A coding agent: many calls of tools, failures and retries, a stream that breaks, a change of model, a way back."""

from __future__ import annotations

import json
from functools import partial
from random import Random

from ...domain.log.envelope import acting
from ..store import Store
from .simulation import DAY, Conversation, Job, Simulation, ToolCall

AUTHOR = "sam.keller"
INSTRUCTIONS = """\
You work in the repository `tidegate`. Read before you write. Run the tests that concern a change, then all of them.
Never change a test to make it pass without saying so."""
FILES = ("tidegate/clock.py", "tidegate/queue.py", "tidegate/sluice.py", "tests/test_queue.py", "tests/test_sluice.py")
NAMES = ("gate", "level", "pump", "schedule", "lock", "deadline", "tick", "basin")
FIXED = """\
--- a/tidegate/queue.py
+++ b/tidegate/queue.py
@@ -41,7 +41,7 @@ class Queue:
     def take(self, deadline: float) -> Order | None:
-        while not self._orders:
+        while not self._orders and self._clock.now() < deadline:
             self._changed.wait(deadline - self._clock.now())
         return self._orders.popleft() if self._orders else None
"""


def jobs(store: Store, simulation: Simulation, *, days: float) -> list[tuple[float, Job]]:
    """Return the work on a test that fails now and then."""
    return [((days - 2.1) * DAY, partial(repair, store, simulation))]


async def repair(store: Store, simulation: Simulation) -> None:
    """Find out why a test fails now and then, go wrong once, go back, and mend it."""
    chat = store.chat("flaky-test", user=AUTHOR, session="flaky-test", agent="coder", source="terminal")
    talk = Conversation(simulation, chat, user=AUTHOR)
    with acting(correlation_id="change-318"):
        chat.add_message("system", INSTRUCTIONS)
        chat.add_config_update(
            tools=["grep", "read_file", "edit_file", "run_tests"], model="north-large", settings={"temperature": 0}
        )
        task = await talk.ask("tests/test_queue.py fails about once in twenty runs. Find out why, and mend it.")
        chat.pin(task, reason="the task itself")
        await _look_around(talk)
        chat.name_version("understood")
        await _go_wrong(talk)
        await _go_back(talk)
        await _mend(talk)


async def _look_around(talk: Conversation) -> None:
    random = talk.random
    await talk.calls(
        *(
            ToolCall(
                "grep",
                {"pattern": name},
                "\n".join(
                    f"{random.choice(FILES)}:{random.randint(4, 160)}: {name}" for _ in range(random.randint(2, 9))
                ),
            )
            for name in NAMES[:4]
        )
    )
    for path in FILES:
        await talk.call("read_file", source(random, random.randint(30, 110)), path=path)
    for attempt in range(6):
        is_failing = attempt in (2, 5)
        await talk.call(
            "run_tests",
            tests(random, failing=is_failing),
            is_error=is_failing,
            path="tests/test_queue.py",
            seed=attempt,
        )
    await talk.answer(
        "It fails where the clock is read twice: `take` waits for a "
        "deadline that has passed while it looked at the queue."
    )


async def _go_wrong(talk: Conversation) -> None:
    await talk.call(
        "edit_file",
        "Error: the text to replace occurs 3 times in tidegate/queue.py",
        is_error=True,
        path="tidegate/queue.py",
        old="self._clock.now()",
        new="now",
    )
    await talk.call("edit_file", "written", path="tests/test_queue.py", old="deadline=0.01", new="deadline=5.0")
    await talk.call("run_tests", tests(talk.random, failing=False), path="tests")
    await talk.stream(
        "All tests pass now. I have given the queue five seconds in place of ten milliseconds, which", fails_after=11
    )
    await talk.ask("Stop. That only hides it. Take that change back, and mend the queue.")


async def _go_back(talk: Conversation) -> None:
    chat = talk.chat
    # The wrong way leaves the prompt, and stays in the past; a fork keeps it for a look at it.
    chat.fork("flaky-test-longer-wait", agent="coder")
    calls = [item.id for item in chat.tail(8) if item.type == "function_call"]
    chat.evict(calls, reason="a wrong way")
    chat.add_config_update(model="north-small", settings={"temperature": 0.3, "max_tokens": 2048})
    talk.model = "north-small"
    await talk.call("edit_file", "written", path="tests/test_queue.py", old="deadline=5.0", new="deadline=0.01")
    large = [item.id for item in chat.items if item.type == "function_call" and item.name == "read_file"][:3]
    chat.evict(large, reason="read, and no longer needed")
    await talk.pause(4, 9)
    chat.restore(large[-1:], reason="the queue is looked at again")
    twin = chat.at("understood").fork("flaky-test-two-models", agent="coder")
    other = Conversation(talk.simulation, twin, user=AUTHOR, model="north-small")
    await other.answer("The loop in `take` never looks at the clock again. One condition is missing.")
    await chat.merge_result(twin)


async def _mend(talk: Conversation) -> None:
    chat, random = talk.chat, talk.random
    chat.add_config_update(model="north-large", settings={"temperature": 0, "max_tokens": None})
    talk.model = "north-large"
    await talk.calls(
        ToolCall("read_file", {"path": "tidegate/queue.py"}, source(random, 60)),
        ToolCall("grep", {"pattern": "take("}, "tidegate/sluice.py:88: take(\ntests/test_queue.py:31: take("),
    )
    await talk.call("edit_file", FIXED, path="tidegate/queue.py")
    for seed in range(8):
        await talk.call("run_tests", tests(random, failing=False), path="tests/test_queue.py", seed=seed)
    chat.truncate(max_tokens=6_000, reason="room for the last runs")
    await talk.call("run_tests", "Error: no answer within 120 s", is_error=True, path="tests")
    await talk.call("run_tests", tests(random, failing=False), path="tests")
    await talk.stream(f"Mended: `take` looks at the clock in each round. 200 runs, no failure.\n\n```diff\n{FIXED}```")
    chat.name_version("mended")
    await talk.ask("Thank you. Open a change for it.")
    await talk.request(
        ToolCall("open_change", {"title": "Look at the clock in each round of take", "draft": False}, "")
    )


def source(random: Random, lines: int) -> str:
    """Return lines that look like a Python file."""
    made = []
    for number in range(lines):
        one, other = random.sample(NAMES, 2)
        made.append(
            random.choice(
                [
                    f"def {one}_{number}(self, {other}: float) -> None:",
                    f"    self._{one} = {other}",
                    f"    if {one} > {other}:",
                    f"        return {random.randint(1, 90)}",
                    "",
                    f"    # The {one} must be read before the {other}.",
                ]
            )
        )
    return "\n".join(made)


def tests(random: Random, *, failing: bool) -> str:
    """Return what a run of tests prints."""
    lines = [f"{path} {'.' * random.randint(3, 24)}" for path in FILES if path.startswith("tests/")]
    if failing:
        lines.append("E   AssertionError: assert None == Order(gate='north', level=2.4)")
    counted = {"passed": random.randint(31, 48), "failed": int(failing), "seconds": round(random.uniform(0.4, 9.0), 2)}
    return "\n".join([*lines, json.dumps(counted)])
