"""
A transcript to try things with: runs of a support agent of an airline that does not exist.

    python examples/transcripts.py airline.json --tasks 4 --trials 2

The file has the form of tau-bench results: a list of runs, each with its task, its trial and the messages that
went back and forth. The same numbers give the same file.
"""

from __future__ import annotations

import argparse
import json
import random
from typing import Any

Message = dict[str, Any]

POLICY = """\
You answer for Heron Air.

- Look a booking up before you say anything about it.
- Say what a change costs, and wait for a yes, before you make it.
- A bag costs 35 euros, a change of flight 60. Members of the Wading Club pay half.
- What you cannot do, a colleague can: hand over, and say so."""
NAMES = ["Ada Brink", "Tomas Ferro", "Yuna Okafor", "Elif Sander", "Noor Vasquez", "Jonas Quill"]
CITIES = ["Porto", "Tallinn", "Graz", "Bergen", "Valletta", "Košice"]
WISHES = {
    "change_flight": "I need to leave a day later, is that possible?",
    "add_bag": "My cello comes along after all. Can I add a bag?",
    "refund": "You cancelled my flight, and I would like my money back.",
    "seat": "Could I sit by the window, please?",
}
CLOSINGS = ["Lovely, thank you!", "Great. Have a quiet evening.", "That was quick, thanks.", "Perfect, bye!"]


class Run:
    """One conversation as it grows; all choices come from its own random source."""

    def __init__(self, task: int, trial: int) -> None:
        self.random = random.Random(f"heron-{task}-{trial}")
        self.topic = list(WISHES)[task % len(WISHES)]
        self.name = self.random.choice(NAMES)
        self.messages: list[Message] = [{"role": "system", "content": POLICY}]

    def say(self, role: str, content: str) -> None:
        """Add what somebody says."""
        self.messages.append({"role": role, "content": content})

    def call(self, tool: str, arguments: Message, answer: Any, *, text: str | None = None, call_id: str = "") -> None:
        """Add a call of a tool, with text in the same message where there is some, and its answer."""
        call_id = call_id or "call_" + "".join(self.random.choices("abcdefghjkmnpqrstuvwxyz23456789", k=20))
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": call_id, "type": "function", "function": function}
        output = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        self.messages.append({"role": "assistant", "content": text, "tool_calls": [call]})
        self.messages.append({"role": "tool", "tool_call_id": call_id, "name": tool, "content": output})


def conversation(task: int, trial: int) -> list[Message]:
    """Return the messages of one run."""
    run = Run(task, trial)
    code = "".join(run.random.choices("BCDFGHKLMNPRST", k=6))
    start, end = run.random.sample(CITIES, 2)
    booking = {"code": code, "name": run.name, "from": start, "to": end, "day": "2031-04-17", "bags": 1}
    run.say("user", f"Hello, {run.name} here. {WISHES[run.topic]}")
    run.say("assistant", "Gladly. What is your booking code, please? It has six letters.")
    run.say("user", f"It is {code}.")
    # The agent mistypes the code in some runs, and repeats the call under the same id.
    again = "call_lookup" if trial % 2 else ""
    if again:
        run.call("find_booking", {"code": code[:5]}, "Error: no such booking", call_id=again)
    run.call("find_booking", {"code": code}, booking, call_id=again)
    RESOLUTIONS[run.topic](run, booking)
    run.say("user", run.random.choice(CLOSINGS))
    return run.messages


def _change_flight(run: Run, booking: Message) -> None:
    flights = [{"flight": f"HR{run.random.randint(100, 999)}", "time": time} for time in ("07:25", "18:40")]
    search = {"from": booking["from"], "to": booking["to"], "day": "2031-04-18"}
    run.call("list_flights", search, flights, text="I have found you. One moment, I look for flights a day later.")
    run.say("assistant", "There are two:\n\n1. 07:25\n2. 18:40\n\nThe change costs 60 euros. Which one?")
    run.say("user", "The evening one. Yes, go ahead.")
    run.call("change_flight", {"code": booking["code"], "flight": flights[1]["flight"]}, {"changed": True})
    run.say("assistant", f"Done: {flights[1]['flight']} at 18:40 on 18 April, {booking['from']} to {booking['to']}.")


def _add_bag(run: Run, booking: Message) -> None:
    run.say("assistant", "A second bag costs 35 euros. Shall I add it?")
    run.say("user", "Yes please. It is 130 cm long, by the way.")
    run.call(
        "add_bag", {"code": booking["code"], "count": 1}, {"bags": 2, "paid": 35}, text="I add it and note its length."
    )
    run.say("assistant", "Your booking now has two bags. Please bring the cello to the counter for large bags.")


def _refund(run: Run, booking: Message) -> None:
    run.call("flight_status", {"code": booking["code"]}, {"status": "cancelled", "reason": "fog at Bergen"})
    run.say("assistant", "I am sorry about that. Do you want the money back, or another flight?")
    run.say("user", "The money, please.")
    run.call("refund", {"code": booking["code"]}, {"refunded": 142.5, "currency": "EUR"}, text="I send it back now.")
    run.say("assistant", "142.50 euros are on their way to you; it takes up to five days.")


def _seat(run: Run, booking: Message) -> None:
    run.call("seat_map", {"code": booking["code"]}, {"window": [], "aisle": ["11C", "23D"]})
    run.say("assistant", "All window seats are taken, I am afraid. A colleague at the gate can see what comes free.")
    run.say("user", "Then please tell them.")
    run.call("hand_over", {"code": booking["code"], "wish": "window seat"}, "Handed over to the gate.")
    run.say("assistant", "I have told the gate. Ask there from 40 minutes before departure.")


RESOLUTIONS = {"change_flight": _change_flight, "add_bag": _add_bag, "refund": _refund, "seat": _seat}


def transcript(*, tasks: int, trials: int) -> list[dict[str, Any]]:
    """Return `tasks` times `trials` runs."""
    return [
        {
            "task_id": task,
            "trial": trial,
            "reward": float((task + trial) % 3 > 0),
            "info": {"topic": list(WISHES)[task % len(WISHES)], "airline": "Heron Air"},
            "traj": conversation(task, trial),
        }
        for trial in range(trials)
        for task in range(tasks)
    ]


def main() -> None:
    """Write the file that the command line asks for."""
    parser = argparse.ArgumentParser(description="Write a transcript to try Refold with.")
    parser.add_argument("file")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--trials", type=int, default=2)
    options = parser.parse_args()
    runs = transcript(tasks=options.tasks, trials=options.trials)
    with open(options.file, "w", encoding="utf-8") as file:
        json.dump(runs, file, ensure_ascii=False, indent=1)
    print(f"{options.file}: {len(runs)} runs, {sum(len(run['traj']) for run in runs)} messages")


if __name__ == "__main__":
    main()
