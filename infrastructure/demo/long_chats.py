"""Chats over many days: leases that outgrow the budget of a model, and a check that runs each hour for weeks."""

from __future__ import annotations

import json
from functools import partial

from ...domain.log.envelope import acting
from ..store import Store
from .simulation import DAY, HOUR, Conversation, Job, PreparedModel, Simulation, ToolCall, prose

LAWYER = "ruth.amsel"
WORDS = (
    "the lessee lessor agreement term notice party shall may not of and to in writing within thirty days after "
    "delivery premises costs damages liability termination consent payment schedule hereunder provided that any"
)
QUESTIONS = (
    "Who pays for the roof in this one?",
    "How long is the notice?",
    "Is the deposit above three months?",
    "Compare the clause on damages with the one before.",
    "Which of them may be given to a third party?",
    "What happens when the rent is late?",
    "Does it end by itself?",
)
BUDGET = 110_000
SERVICES = ("bookings", "payments", "mail", "search", "seat maps")


def jobs(store: Store, simulation: Simulation, *, days: float, leases: int, checks: int) -> list[tuple[float, Job]]:
    """Return the reading of so many leases, and so many checks."""
    reading = (0.1 * DAY, partial(review, store, simulation, days - 0.6, leases))
    pause = days * DAY / max(checks, 1) * 0.9
    return [reading, (0.0, partial(watch, store, simulation, checks, pause))] if checks else [reading]


async def review(store: Store, simulation: Simulation, days: float, leases: int) -> None:
    """Read lease after lease in one chat, until nothing more goes in without something leaving."""
    chat = store.chat(
        "lease-review", user=LAWYER, agent="reader", source="desktop", attributes={"matter": "harbour quarter"}
    )
    talk = Conversation(simulation, chat, user=LAWYER)
    chat.add_message("system", "You read leases. Quote the clause you rely on. You do not guess.")
    rules = await talk.ask("Before we begin: amounts in euros, dates as day and month, and say which page.")
    chat.pin(rules, reason="holds for all leases")
    for number in range(leases):
        lease = await _read(talk, number)
        if number % 4 == 2:
            answer = PreparedModel(
                f"{number + 1} leases were read. The notice is six months in all but two. The roof is the lessor's."
            )
            await chat.summarize(answer, keep_recent_turns=2)
        elif number % 4 == 3:
            chat.evict(lease, reason="read; its clauses are quoted")
        if chat.estimated_tokens() > BUDGET * 1.3:
            chat.truncate(max_tokens=BUDGET, reason="over the budget of the model")
        if number == 6:
            chat.undo_summary()
            await talk.answer("The summary left out two dates, so I have taken it back.")
            chat.name_version("half-of-them")
        await simulation.wait(days * DAY / leases - 2 * HOUR)
    await talk.ask("All of them, then. Which three should we give notice to first?")
    await talk.answer("Numbers 3, 7 and 8: their notice ends this month, and none of them names a successor.")


async def _read(talk: Conversation, number: int) -> str:
    clauses = [f"§ {clause + 1}. {prose(talk.random, WORDS, talk.random.randint(8, 22))}" for clause in range(96)]
    lease = await talk.ask(f"Lease {number + 1}:\n\n" + "\n\n".join(clauses))
    await talk.answer(f"Lease {number + 1} has {len(clauses)} clauses. § 12 and § 31 are unusual.")
    for question in talk.random.sample(QUESTIONS, 4):
        await talk.ask(question)
        clause = talk.random.randint(2, 90)
        await talk.call("find_clause", clauses[clause - 1][:900], lease=number + 1, clause=clause)
        await talk.answer(f"§ {clause} says so: “{clauses[clause - 1][5:90].strip()} …” (page {clause // 4 + 1}).")
    with acting(actor=LAWYER):
        talk.chat.name_version(f"lease-{number + 1}")
    return lease


async def watch(store: Store, simulation: Simulation, checks: int, pause: float) -> None:
    """Ask an agent again and again whether all services answer, in one chat that is kept short."""
    chat = store.chat("night-watch", user="clock", agent="watch", source="schedule")
    talk = Conversation(simulation, chat, user="clock", model="north-small")
    chat.add_message("system", "You look whether all services answer. Wake somebody only if two do not.")
    for number in range(checks):
        await simulation.wait(pause)
        chat.add_message("user", f"Check {number + 1}: do all services answer?")
        slow = talk.random.choice(SERVICES)
        times = {name: talk.random.randint(9, 90) for name in SERVICES} | {slow: talk.random.randint(50, 2_000)}
        is_late = times[slow] > 1_800
        output = f"Error: {slow} gave no answer in 2 s" if is_late else json.dumps(times)
        await talk.calls(ToolCall("ping", {"services": list(SERVICES)}, output, is_late))
        await talk.answer(
            f"{slow} does not answer; I look again in a minute."
            if is_late
            else f"All answer. {slow} took {times[slow]} ms."
        )
        if number % 100 == 99:
            chat.truncate(max_items=120, reason="older checks are not needed")
