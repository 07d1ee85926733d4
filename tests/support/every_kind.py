"""A store with every kind of context, and all that a user can see of each context, as values to compare."""

from __future__ import annotations

from typing import Any

import refold
from refold.domain.memory.records import MemoryKind, MemoryRecord
from refold.projections.catalogue import CatalogueRow
from tests.contract.chat_checking import Teller

LARGE = "a text that is stored once, beside its event; " * 400
SCOPE = "user:mia@example.org"


async def fill(store: refold.Store) -> None:
    """Write some of everything: edits, forks, merges, a summary, rounds, large texts, keys, actors and causes."""
    with refold.acting(actor="mia", correlation_id="trace-1"):
        await _fill_chats(store)
    with refold.acting(because="chat:a@2"):
        await _fill_containers(store)
        _fill_window(store)
        await _fill_memory(store)
    _fill_runs(store)


async def _fill_chats(store: refold.Store) -> None:
    chat = store.chat("a", user="mia", session="s1", agent="triage", attributes={"team": "\u00fcber"})
    chat.add_message("system", "Be kind.")
    for number in range(6):
        chat.add_message("user", f"question {number}", idempotency_key=f"turn {number}")
        chat.add_function_call("look", '{"id": 7}', call_id=f"c{number}")
        chat.add_function_output("look", LARGE if number == 3 else "seen", call_id=f"c{number}")
        chat.add_message("assistant", f"answer {number}\x00\U0001f600")
    chat.pin(chat.items[1].id, reason="the first question")
    brief = chat.fork_filtered(recent_turns=2, context_id="brief", agent="lookup")
    brief.add_message("assistant", LARGE)
    chat.truncate(max_items=8)
    await chat.merge_result(brief)
    side = chat.fork("side")
    side.evict(side.items[-1].id, reason="not this")
    side.fork("deep").add_config_update("Be brief.", ["look"])
    await side.merge(brief)
    side.name_version("here")
    side.restore()
    told = store.chat("told")
    told.add_items(chat.items)
    await told.summarize(Teller("What was said."), keep_recent_turns=1)
    store.chat("cleared").add_message("user", "gone")
    store.chat("cleared").clear(reason="a new day")


async def _fill_containers(store: refold.Store) -> None:
    queue = store.queue("q", limit=3, tags=["x"])
    await queue.append(*(refold.PoolItem({"n": number}, f"about {number}") for number in range(5)))
    branch = queue.branch(context_id="q2")
    await branch.evict(branch.births[0])
    pool = store.pool("p")
    for number in range(4):
        await pool.add(refold.PoolItem(LARGE if number == 2 else {"n": number}, "", f"i{number}"))
    other = pool.branch(context_id="p2")
    await other.remove("i1")
    await other.add(refold.PoolItem([1, None, 10**30], "", "i9"))
    await pool.merge(other)


def _fill_window(store: refold.Store) -> None:
    window = store.window("w", max_tokens=30)
    for key in "abcdef":
        window.add(refold.BudgetItem(key, f"value {key}", "tool", 1))
    window.remove("a", reason="stale")


async def _fill_memory(store: refold.Store) -> None:
    memory = store.memory()
    await memory.put(MemoryRecord(scope=SCOPE, key="plan", value={"steps": [1, LARGE]}, kind=MemoryKind.PROCEDURAL))
    await memory.put(MemoryRecord(scope=SCOPE, key="lang", value="en", tags=["\u00fc"]))
    await memory.put(MemoryRecord(scope=SCOPE, key="lang", value="de"))
    await memory.forget(scope=SCOPE, key="plan")


def _fill_runs(store: refold.Store) -> None:
    for number in range(3):
        run = store.run("mia", "s1", number, agent="planner")
        query = run.register_query(f"round {number}?")
        table = run.register_node("Table", "", [query], "reads", "orders", path="/t.csv")
        run.register_node("State", "seen", [table], state="done", edge_type="leads")
        run.modify_node(table, {"description": f"the orders of {number}"})
        run.append_todo("look again")
        run.record_messages({"role": "user", "content": LARGE})
    sub = store.run("mia", "s1", 1, 1)
    sub.register_query("and the lines?")


async def seen(view: Any) -> dict[str, Any]:
    """Return all that a user can see of every context, by its stream, in a store now or at a moment."""
    found = {}
    for row in view.contexts():
        found[row.key] = await _remembered(view.memory()) if row.kind == "memory" else told(row.kind, opened(view, row))
    return found


def opened(view: Any, row: CatalogueRow) -> Any:
    """Return a context, but no memory, of a store now or at a moment."""
    if row.kind != "run":
        return getattr(view, row.kind)(row.id)
    user, session, number, sub = row.id.split("/")
    return view.run(user, session, int(number), int(sub))


def told(kind: str, context: Any) -> Any:
    """Return all that a user can see of a context of some kind, now or in the past."""
    match kind:
        case "chat":
            counted = context.version, context.turn_count(), context.estimated_tokens()
            return counted, context.to_dict(), context.evicted_items(), context.pinned_ids(), context.active_config_at()
        case "queue" | "pool":
            return context.version, context.to_dict(), context.births, context.evicted(), context.tags
        case "window":
            return context.version, context.build(), context.evicted(), context.dropped(), context.max_tokens
        case _:
            nodes = {name: context.node(name) for name in context.nodes()}
            return context.version, context.graph(), nodes, context.steps(), context.messages(), context.rounds


async def _remembered(memory: Any) -> Any:
    changes = await memory.history(scope=SCOPE)
    return await memory.search(scope=SCOPE, limit=100), [(one.key, one.how, one.old, one.new) for one in changes]
