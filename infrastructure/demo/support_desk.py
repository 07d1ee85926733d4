"""A support desk: a refund that people approve, change and reject, and the short tickets of several days."""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import Any

from ...domain.clock import time_of
from ...domain.log.envelope import acting
from ...domain.memory.records import MemoryKind, MemoryRecord
from ...domain.pool.items import ContextItem
from ..store import Store
from .simulation import DAY, HOUR, Conversation, Job, Simulation, ToolCall

POLICY = """\
You answer for Heron Air.

- Look a booking up before you say anything about it.
- A refund above 100 euros waits for a team lead.
- Say what a change costs, and wait for a yes, before you make it.
- What you cannot do, a colleague can: hand over, and say so."""
TOOLS = ["find_booking", "payments", "refund", "send_voucher", "add_note"]
LEAD = "noor.vasquez"
CUSTOMER = "ada.brink"
CASE = "refund-7Q2KLM"
PAID = json.dumps([{"what": "fare", "euros": 284.5}, {"what": "bag", "euros": 35}])
CUSTOMERS = ("tomas.ferro", "yuna.okafor", "elif.sander", "jonas.quill", "mara.lind", "piet.holm", "ines.rocha")
CITIES = ("Porto", "Tallinn", "Graz", "Bergen", "Valletta", "Košice", "Galway")
# The wish of a customer, the tool that serves it, and the answer that follows.
TICKETS = (
    ("Could I sit by the window, please?", "seat_map", "Row 14 has a window seat free: 14A is yours now."),
    (
        "My cello comes along after all. Can I add a bag?",
        "add_bag",
        "Done. Please bring it to the counter for large bags.",
    ),
    (
        "I have to leave a day later. What does that cost?",
        "list_flights",
        "There are two flights, 07:25 and 18:40. The change costs 60 euros.",
    ),
    ("The receipt has the wrong company name on it.", "reissue_receipt", "A corrected receipt is in your mail now."),
    (
        "Is my connection safe with a delay of 50 minutes?",
        "flight_status",
        "It is: your next flight waits for eleven people from yours.",
    ),
    (
        "I cannot check in, the page says my name does not fit.",
        "find_booking",
        "Two letters were swapped in the booking. I have put that right.",
    ),
)


def jobs(store: Store, simulation: Simulation, *, days: float, tickets: int) -> list[tuple[float, Job]]:
    """Return the refund, the desk's policies and so many short tickets, spread over some days."""
    random = Random("tickets")
    spread = sorted(random.uniform(0, days * DAY - 4 * HOUR) for _ in range(tickets))
    return [
        (0.0, partial(open_desk, store)),
        (0.3 * DAY, partial(policies, store, simulation)),
        ((days - 1.2) * DAY, partial(refund, store, simulation)),
        ((days - 1.9) * DAY, partial(night_shift, store, simulation)),
        *((after, partial(ticket, store, simulation, number)) for number, after in enumerate(spread)),
    ]


async def open_desk(store: Store) -> None:
    """Make the queue of what waits at the desk."""
    store.queue("desk", limit=6, tags=["support"])


async def refund(store: Store, simulation: Simulation) -> None:
    """Let a customer ask for money back: four calls need a lead, who decides on three of them."""
    chat = store.chat(CASE, user=CUSTOMER, session=CASE, agent="triage", source="web", attributes={"tier": "gold"})
    talk = Conversation(simulation, chat, user=CUSTOMER)
    with acting(correlation_id="ticket-20418"):
        chat.add_message("system", POLICY)
        chat.add_config_update(tools=TOOLS, model=talk.model, settings={"temperature": 0.2})
        await talk.ask(
            "Hello, Ada Brink here. My flight to Bergen was cancelled and I slept at the airport. I want my money back."
        )
        await talk.call("find_booking", json.dumps(booking()), code="7Q2KLM")
        await talk.answer(
            "I am sorry about that night, Ada. The flight was cancelled by fog. My colleague for refunds takes over."
        )
        chat.add_handoff("refunds", "triage", "a refund above 100 euros")
        chat.name_version("handed-over")
        await _refund_decisions(talk, store)
        await _remember(store, simulation)


async def _refund_decisions(talk: Conversation, store: Store) -> None:
    chat = talk.chat
    await talk.calls(
        ToolCall("payments", {"code": "7Q2KLM"}, PAID),
        ToolCall(
            "add_note",
            {"code": "7Q2KLM", "text": "slept at the airport"},
            "Error: the note service does not answer",
            True,
        ),
    )
    await talk.call("add_note", "noted", code="7Q2KLM", text="slept at the airport")
    asked = await talk.ask("The hotel was 120 euros, the taxi 38. I have both receipts.")
    fare = await talk.request(
        ToolCall("refund", {"code": "7Q2KLM", "euros": 477.5, "for": "fare, bag, hotel, taxi"}, "")
    )
    chat.approvals.request(fare, because="477.50 euros are above the limit of 100")
    await talk.pause(600, 1500)
    changed = {"code": "7Q2KLM", "euros": 439.5, "for": "fare, bag, hotel"}
    chat.approvals.change(fare, changed, by=LEAD, because="a taxi is not covered by the policy")
    await talk.pause(3, 9)
    chat.answer_call(fare, '{"refunded": 439.5, "currency": "EUR"}')
    await talk.answer(
        "439.50 euros are on their way: the fare, the bag and the hotel. The taxi is not covered, I am sorry.",
        agent="refunds",
    )
    await talk.ask("The taxi was your driver's advice! And what about the missed concert, 90 euros?")
    concert = await talk.request(ToolCall("refund", {"code": "7Q2KLM", "euros": 90, "for": "concert ticket"}, ""))
    with acting(because=f"{chat.stream_id}@{chat.version}"):
        chat.approvals.request(concert, because="not in the policy")
    await talk.pause(300, 900)
    chat.approvals.reject(concert, by=LEAD, because="Tickets of third parties are never covered.")
    taxi = await talk.request(ToolCall("refund", {"code": "7Q2KLM", "euros": 38, "for": "taxi"}, ""))
    chat.approvals.request(taxi, because="the driver sent her")
    await talk.pause(120, 400)
    chat.approvals.approve(taxi, by=LEAD)
    chat.answer_call(taxi, '{"refunded": 38, "currency": "EUR"}')
    await talk.stream(
        "The taxi is paid back as well, 38 euros. The concert ticket I cannot refund, but I have asked for a voucher."
    )
    chat.name_version("refunded")
    chat.pin(asked, reason="the claim itself")
    chat.unpin(asked, reason="it is settled")
    voucher = await talk.request(ToolCall("send_voucher", {"to": "ada.brink", "euros": 60, "valid_months": 18}, ""))
    chat.approvals.request(voucher, because="goodwill, above the limit of 50 for this agent")
    # Somebody tries another answer on the state before the last decision; the customer never sees it.
    other = chat.at("refunded").fork("refund-7Q2KLM-softer", agent="review")
    with acting(actor=LEAD):
        other.add_config_update("You answer for Heron Air. Be warm, and admit what went wrong before you explain.")
    await Conversation(talk.simulation, other, user=CUSTOMER, model="north-small").answer(
        "You slept on a bench because of us, and had to argue about a taxi. Both are paid back today."
    )
    await store.chat(CASE).merge_result(other, agent_id="review")


async def _remember(store: Store, simulation: Simulation) -> None:
    memory, scope = store.memory(), f"user:{CUSTOMER}"
    for key, value, kind, tags in (
        ("language", "en", MemoryKind.SEMANTIC, ["profile"]),
        ("seat", {"wish": "aisle", "row": "front"}, MemoryKind.SEMANTIC, ["profile"]),
        (
            "case 7Q2KLM",
            "Cancelled by fog, slept at the airport. 477.50 euros paid back.",
            MemoryKind.EPISODIC,
            ["refund"],
        ),
        ("seat", {"wish": "window"}, MemoryKind.SEMANTIC, ["profile"]),
        ("tone", "Answer short; she writes from her phone.", MemoryKind.PROCEDURAL, []),
    ):
        await simulation.wait(40)
        now = time_of(int(simulation.now() * 1_000_000))
        with acting(actor="refunds", because=f"chat:{CASE}@{store.chat(CASE).version}"):
            await memory.put(
                MemoryRecord(scope=scope, key=key, value=value, kind=kind, tags=tags, timestamp=now, updated_at=now)
            )
    await memory.forget(scope=scope, key="language")
    await memory.forget(scope=scope, key="seat")
    await memory.restore(scope=scope, key="seat")
    memory.scope(scope).name_version("after-7Q2KLM")


async def policies(store: Store, simulation: Simulation) -> None:
    """Keep the desk's documents in a pool, which two people change at the same time."""
    pool = store.pool("policies", limit=8, tags=["support"])
    texts = {
        "refunds": ("When money goes back", "Fare and bags in full when we cancel. Hotel up to 150 euros a night."),
        "bags": ("What may come along", "One bag of 23 kg. Instruments up to 130 cm at the counter, 35 euros."),
        "delays": ("What a delay is worth", "From three hours on: meals. From five hours on: the fare."),
        "names": ("Wrong names in a booking", "Up to three letters are free. Anything else is a new booking."),
    }
    for name, (about, text) in texts.items():
        await simulation.wait(240)
        with acting(actor="mara.lind"):
            await pool.add(ContextItem(text, about, name))
    draft = pool.branch("policies-draft")
    with acting(actor="jonas.quill"):
        await draft.add(
            ContextItem(
                "Fare, bags and hotel in full. Taxi where a member of staff sent for it.",
                "When money goes back",
                "refunds",
            )
        )
        await draft.remove("names", reason="the booking page does it now")
    await simulation.wait(3 * HOUR)
    with acting(actor="mara.lind"):
        await pool.add(
            ContextItem("Fare and bags in full. Hotel up to 180 euros a night.", "When money goes back", "refunds")
        )
    await simulation.wait(HOUR)
    with acting(actor=LEAD):
        await pool.merge(draft, rule="theirs")
        pool.name_version("spring")
        await pool.change_settings(limit=2)
        await simulation.wait(90)
        await pool.change_settings(limit=8)
        await pool.restore(pool.evicted()[-1].born)
        await draft.clear()


async def night_shift(store: Store, simulation: Simulation) -> None:
    """Take the desk's queue over for a night: a branch, from which the desk takes back what was added."""
    desk = store.queue("desk")
    desk.name_version("evening")
    night = desk.branch("desk-night")
    with acting(actor="piet.holm"):
        await night.append(ContextItem({"ticket": "phone", "wish": "a lost coat"}, "A coat was left in row 9"))
        await simulation.wait(2 * HOUR)
        await night.evict(night.births[0], reason="answered by phone")
    await desk.merge(night)
    with acting(actor=LEAD):
        await night.clear()
        await night.restore(night.evicted()[-1].born)
        await desk.change_settings(limit=8)


async def ticket(store: Store, simulation: Simulation, number: int) -> None:
    """Answer a short question; some tools fail first, some customers ask again."""
    random = Random(f"ticket {number}")
    customer, (wish, tool, solution) = random.choice(CUSTOMERS), random.choice(TICKETS)
    chat = store.chat(
        f"ticket-{20_300 + number}", user=customer, session=f"{customer}-{number}", agent="triage", source="mail"
    )
    talk = Conversation(simulation, chat, user=customer, model="north-small")
    await _queued(store, chat.id, wish)
    chat.add_message("system", POLICY)
    await talk.ask(f"Hello, {customer.split('.')[0].title()} here. {wish}")
    code = "".join(random.choices("BCDFGHKLMNPRST", k=6))
    if random.random() < 0.3:
        await talk.call(tool, f"Error: no booking {code[:5]}", is_error=True, code=code[:5])
    await talk.call(tool, json.dumps(booking(random), ensure_ascii=False), code=code)
    await talk.answer(solution)
    if random.random() < 0.6:
        await talk.ask(
            random.choice(["Great, thank you!", "That was quick. Thanks!", "Hm, and what if it changes again?"])
        )
        await talk.answer("Then write to us again, with the same code. Have a good flight.")


async def _queued(store: Store, name: str, wish: str) -> None:
    await store.queue("desk").append(ContextItem({"ticket": name, "wish": wish}, wish))


def booking(random: Random | None = None) -> dict[str, Any]:
    """Return a made-up booking."""
    random = random or Random(CASE)
    start, end = random.sample(CITIES, 2)
    return {
        "from": start,
        "to": end,
        "flight": f"HR{random.randint(100, 999)}",
        "bags": random.randint(0, 2),
        "passengers": [{"seat": f"{random.randint(2, 31)}{random.choice('ABCDEF')}"}],
        "paid": random.randint(90, 480),
    }
