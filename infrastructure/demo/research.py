"""A team of agents that writes a report: briefed forks, parallel searches, merges with a conflict, a shared window."""

from __future__ import annotations

import json
from functools import partial
from random import Random

from ...domain.chat.items import ChatMessage
from ...domain.chat.roles import ChatRole
from ...domain.log.envelope import acting
from ...domain.pool.items import ContextItem
from ...domain.window.items import ContextItem as BudgetItem
from ..store import Store
from .simulation import DAY, Conversation, Job, PreparedModel, Simulation, ToolCall, prose

EDITOR = "lena.marsh"
# The task of each agent, and the topics that it looks up.
TEAM = {
    "wetlands": ("Find how many breeding pairs the wetlands hold.", ("breeding pairs", "dry ponds", "reed beds")),
    "rivers": ("Find what herons eat along the rivers now.", ("fish in the lower river", "weirs", "frogs")),
    "climate": (
        "Find whether mild winters change when they leave.",
        ("first sightings", "frost days", "winter quarters"),
    ),
}
WORDS = (
    "herons colonies reed pond river survey pairs winter spring counts north observers the of in and with between "
    "more fewer than before after sites water level fish nests failed returned"
)
SKETCH = "Herons hold on where water stays. The wetlands lost a fifth of their pairs, the rivers gained half of that."


def jobs(store: Store, simulation: Simulation, *, days: float) -> list[tuple[float, Job]]:
    """Return the work on one report."""
    return [((days - 3.4) * DAY, partial(report, store, simulation))]


async def report(store: Store, simulation: Simulation) -> None:
    """Plan a report, let three agents search at the same time, and bring together what they found."""
    chat = store.chat("heron-report", user=EDITOR, session="heron-report", agent="coordinator")
    talk = Conversation(simulation, chat, user=EDITOR)
    with acting(correlation_id="report-2031-04"):
        chat.add_message("system", "You coordinate researchers. Ask for sources, and name what is not known.")
        chat.add_config_update(tools=["search", "open_page", "count"], model=talk.model, settings={"temperature": 0.4})
        await talk.ask("I need four pages on how herons cope with dry years. Facts with sources, no adjectives.")
        await talk.answer(
            "I will split this into wetlands, rivers and climate, and have the three searched side by side."
        )
        chat.name_version("plan")
        sources = store.pool("heron-sources", limit=14)
        forks = [await _researcher(talk, name) for name in TEAM]
        for name, fork in zip(TEAM, forks, strict=True):
            await _search(fork, store, name)
        await _brought_together(talk, forks)
        # One agent's pool is a branch that is merged back, with an entry that both have changed.
        branch = sources.branch("heron-sources-climate")
        await branch.add(ContextItem("Frost days fell from 71 to 44 a year.", "frost days", "climate-1"))
        await talk.pause(60, 200)
        await sources.add(ContextItem("Frost days fell; the series has a gap in 2009.", "frost days", "climate-1"))
        await sources.merge(branch, rule="newest")
        await _written(talk, store)


async def _researcher(talk: Conversation, name: str) -> Conversation:
    task, _ = TEAM[name]
    await talk.pause(1, 4)
    fork = talk.chat.fork_brief(
        f"You search for {name}. Two sources for each number.", task, f"{name} agent", context_id=f"heron-{name}"
    )
    return Conversation(talk.simulation, fork, user="coordinator", model="north-small")


async def _search(talk: Conversation, store: Store, name: str) -> None:
    _, topics = TEAM[name]
    random, pool = Random(name), store.pool("heron-sources")
    found = await talk.calls(
        *(
            ToolCall("search", {"query": topic}, json.dumps([{"title": topic, "pages": random.randint(2, 40)}]))
            for topic in topics
        )
    )
    await talk.call(
        "open_page", "Error: 503 the archive is closed for the night", is_error=True, url=f"archive/{name}/2"
    )
    for number, topic in enumerate(topics):
        text = f"{topic.capitalize()}: {prose(random, WORDS, random.randint(4, 9))}"
        await talk.call("open_page", text, url=f"archive/{name}/{number}")
        with acting(because=f"{talk.chat.stream_id}@{talk.chat.version}"):
            await pool.add(ContextItem(text[:240], topic, f"{name}-{number}"))
    await talk.answer(f"{len(found)} topics are covered. {prose(random, WORDS, 3)}")
    if name == "rivers":
        # A dead end: the agent goes back and takes another way, and the old one stays in the past.
        talk.chat.evict(talk.chat.items[-2].id, reason="a page about another river")
        await talk.answer("The page on frogs was about another river. Without it the numbers still hold.")


async def _brought_together(talk: Conversation, forks: list[Conversation]) -> None:
    chat, (wetlands, rivers, climate) = talk.chat, [one.chat for one in forks]
    await chat.merge(wetlands, instructions=False)
    await talk.pause(5, 20)
    # Both sides changed the instructions since they parted: one of them wins, and the event has both.
    side = chat.fork("heron-report-short", agent="style")
    side.add_config_update("Write for the board: one page, the three numbers first.", model="north-large")
    await Conversation(talk.simulation, side, user=EDITOR).answer(
        "Three numbers: a fifth fewer pairs, half regained on rivers, nine days earlier in spring."
    )
    chat.add_config_update("You coordinate researchers. Two sources for each number, and a page for what is not known.")
    await chat.merge(side, instructions=True, on_conflict="theirs")
    await chat.merge_result(rivers, agent_id="rivers agent")
    await talk.pause(3, 12)
    await chat.merge_with_summary(
        climate,
        llm=PreparedModel(
            "Frost days fell by a third since 1990; herons come nine days earlier. The gap of 2009 is in both sources."
        ),
        agent_id="climate agent",
    )
    chat.name_version("all-found")


async def _written(talk: Conversation, store: Store) -> None:
    window = store.window("heron-draft", max_tokens=600, policy="evict_lower_priority", session="heron-report")
    random = Random("draft")
    for number in range(14):
        await talk.pause(4, 20)
        window.add(BudgetItem(f"note {number}", prose(random, WORDS, 3), "coordinator", random.randint(0, 4)))
    window.remove(window.items[-1].key, reason="said twice")
    window.restore(window.evicted()[-1].born)
    window.put(BudgetItem("plan", "Wetlands, rivers, climate; then one page for what is not known.", EDITOR, 5))
    window.put(BudgetItem("plan", "One page. Three numbers first.", EDITOR, 5))
    window.name_version("notes-in")
    window.max_tokens = 400
    await talk.stream(f"# How herons cope with dry years\n\n{SKETCH}\n\n{prose(random, WORDS, 14)}", fails_after=90)
    await talk.ask("It broke off in the middle. Again, please, and shorter.")
    await talk.stream(f"# How herons cope with dry years\n\n{SKETCH}\n\n{prose(random, WORDS, 8)}")
    talk.chat.name_version("first-draft")
    talk.chat.add_message("system", "You write for the board. One page, three numbers first.", replace=True)
    # A remark from a meeting, written down later, stands where it was said.
    said = ChatMessage(
        role=ChatRole.USER,
        content=["In the meeting: the board wants the gap of 2009 explained."],
        id="msg_meeting",
        created_at=talk.simulation.now() - 300,
    )
    with acting(actor=EDITOR):
        talk.chat.insert(said)
    await talk.chat.summarize(
        PreparedModel("The editor wants four pages with sources. Three agents searched; all numbers are in."),
        keep_recent_turns=1,
    )
    await talk.ask("Good. Send it to the board, and keep the sources.")
    await talk.answer("It is sent. The sources stay in the pool `heron-sources`, under the names of the agents.")
    with acting(actor=EDITOR):
        store.name_moment("report-sent")
        scratch = talk.chat.fork_filtered(1, context_id="heron-scratch", agent="coordinator")
        scratch.clear(reason="a sheet for the next report")
    window.clear()
    window.restore(*(left.born for left in window.evicted()[-5:]))
