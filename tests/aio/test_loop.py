"""
No call of the async side holds up the loop.

Each public method and property is called while another connection holds the writer lock, and that connection lets go
only after the loop has turned a few times: a call that held up the loop would wait for ever. The thread of the loop is
watched as well, and must not use the database.
"""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import RefusedError
from refold.domain.memory.records import MemoryRecord
from refold.infrastructure.aio import siblings
from refold.infrastructure.aio.proxy import AsyncProxy, StoreProxy

from ..domain.llm.models import ScriptedLLM
from ..projecting.counts import Counts

TURNS = 5
ACTION: Any = {"action": "look", "params": {}, "output": "", "success": True}
MESSAGE = refold.ChatMessage(role=refold.ChatRole.USER, content=["more"])
RECORD = MemoryRecord(scope="s", key="k", value="v")


def chat(store: refold.Store, name: str) -> refold.ChatContext:
    """Return a chat with a message, and a call that waits for its output."""
    made = store.chat(name)
    if made.version == 1:
        made.add_message("user", "hello", message_id="m1")
        made.add_message("user", "again", message_id="m2")
        made.evict("m2")
        made.add_function_call("lookup", "{}", call_id="c1")
    return made


def run(store: refold.Store, name: str) -> refold.Run:
    """Return a run with a query and an action."""
    made = store.run("mia", name)
    query = made.register_query("Why?")
    made.register_node("Action", "look", [query], label="look", **ACTION)
    made.append_todo("later")
    return made


def queue(store: refold.Store, name: str) -> Any:
    """Return a queue with two items, of which one left."""
    made = store.queue(name)
    asyncio.run(made.append(refold.PoolItem("a"), refold.PoolItem("b")))
    asyncio.run(made.evict(made.births[0]))
    return made


def pool(store: refold.Store, name: str) -> Any:
    """Return a pool with an item."""
    made = store.pool(name)
    asyncio.run(made.add(refold.PoolItem("a", "about a", "a1")))
    return made


def window(store: refold.Store, name: str) -> Any:
    """Return a window with an item."""
    made = store.window(name)
    made.add(refold.BudgetItem("k", "text", "test"))
    return made


def memory(store: refold.Store, name: str) -> Any:
    """Return a memory that holds a record, and has forgotten another one."""
    made = store.memory()
    for key in ("k", "gone"):
        asyncio.run(made.put(MemoryRecord(scope="s", key=key, value="v")))
    asyncio.run(made.forget(scope="s", key="gone"))
    return made


def whole_store(store: refold.Store, name: str) -> refold.Store:
    """Return the store, which has a context of the name."""
    chat(store, name)
    if name == "stop_retaining":
        store.retain("old", 400, kind="chat", why="a test")
    if name == "unarchive":
        store.archive(f"{store.log.database.where}.away", "chat:unarchive", why="a test")  # type: ignore[attr-defined]
    return store


MADE: dict[str, Callable[[refold.Store, str], Any]] = {
    "AsyncChat": chat,
    "AsyncApprovals": lambda store, name: chat(store, name).approvals,
    "AsyncSavedStates": lambda store, name: chat(store, name).saved_states,
    "AsyncQueue": queue,
    "AsyncPool": pool,
    "AsyncBudgetWindow": window,
    "AsyncMemory": memory,
    "AsyncMemoryScope": lambda store, name: memory(store, name).scope("s"),
    "AsyncAgentContext": lambda store, name: store.agent_context(name, "agent"),
    "AsyncRun": run,
    "AsyncStoreAt": lambda store, name: (chat(store, "c"), run(store, name), store.at(store.now()))[-1],
    "AsyncWhatIf": lambda store, name: (chat(store, "c"), store.what_if(store.now()))[-1],
    "AsyncWorker": lambda store, name: store.start_projections(["catalogue"]),
    "AsyncStore": whole_store,
}


def llm() -> ScriptedLLM:
    """Return a model that says one thing."""
    return ScriptedLLM(["a summary"])


async def same(context: Any) -> int:
    """Return the version; for changes of containers, which are async."""
    return int(context.version)


def other(kind: Callable[[refold.Store, str], Any]) -> Callable[[refold.Store], Any]:
    """Return a function that returns another context of a kind."""
    return lambda store: kind(store, "other")


# What calls are made with: values, or functions of the store. Calls that need nothing are not in it.
GIVEN: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("version_at", "at"), (1,)),
    "name_version": ("here",),
    "rebase": (lambda _: lambda context: context.version,),
    "AsyncQueue.rebase": (lambda _: same,),
    "AsyncPool.rebase": (lambda _: same,),
    **dict.fromkeys(("get_by_id", "evict", "pin", "unpin"), ("m1",)),
    "tail": (1,),
    "fork_brief": ("Be brief.",),
    "add_message": ("user", "more"),
    "add_messages": ([{"role": "user", "content": "more"}],),
    "add_function_call": ("lookup", "{}"),
    "add_function_output": ("lookup", "done", "c1"),
    "answer_call": ("c1", "done"),
    **dict.fromkeys(("of", "request", "approve", "reject", "seen"), ("c1",)),
    "AsyncApprovals.change": ("c1", "{}"),
    "add_handoff": ("billing",),
    **dict.fromkeys(("add_items", "insert_many"), ([MESSAGE],)),
    "insert": (MESSAGE,),
    "record_items": ([],),
    **dict.fromkeys(("merge", "merge_result"), (other(chat),)),
    "AsyncQueue.merge": (other(queue),),
    "AsyncPool.merge": (other(pool),),
    "merge_with_summary": (other(chat),),
    "summarize": (lambda _: llm(),),
    **dict.fromkeys(("replay", "areplay"), (lambda _: lambda messages: messages,)),
    "append": (refold.PoolItem("c"),),
    "AsyncPool.get": ("a1",),
    "AsyncPool.add": (refold.PoolItem("b", "about b", "b1"),),
    "AsyncPool.remove": ("a1",),
    "select": ("a",),
    **dict.fromkeys(("AsyncBudgetWindow.get", "AsyncBudgetWindow.remove"), ("k",)),
    **dict.fromkeys(("AsyncBudgetWindow.add", "AsyncBudgetWindow.put"), (refold.BudgetItem("n", "text", "test"),)),
    "add_context": ("k", "v"),
    "AsyncMemory.scope": ("s",),
    "AsyncMemoryScope.get": ("k",),
    "AsyncMemory.at": ("2026-01-01T00:00:00Z",),
    "AsyncMemory.put": (RECORD,),
    "AsyncMemoryScope.put": (RECORD,),
    "register_query": ("How?",),
    "register_node": ("Action", "act", ["Query(query00000)"]),
    "modify_node": ("Action(look)", {"description": "other"}),
    **dict.fromkeys(
        ("remove_node", "node", "get_IR_from_node", "versions", "predecessors", "successors", "ancestors",
         "descendants", "AsyncRun.lineage", "AsyncRun.history", "get_next_data_node", "get_previous_action_node"),
        ("Action(look)",),
    ),
    "add_edge": ("Query(query00000)", "Action(look)"),
    "get_historical_trajectory": (0,),
    "append_todo": ("next",),
    "return_step": (0,),
    "record_messages": ({"role": "user", "content": "hi"},),
    "portray_with": (lambda _: lambda node: "a portrait",),
    "node_at": ("Action(look)", 3),
    **dict.fromkeys(("AsyncChat.diff", "AsyncRun.diff"), (1,)),
    **dict.fromkeys(("AsyncStore.chat", "AsyncStore.queue", "AsyncStore.pool", "AsyncStore.window"), ("new",)),
    **dict.fromkeys(("AsyncStoreAt.chat", "AsyncStoreAt.queue", "AsyncStoreAt.pool", "AsyncStoreAt.window"), ("c",)),
    **dict.fromkeys(("AsyncWhatIf.chat", "AsyncWhatIf.queue", "AsyncWhatIf.pool"), ("c",)),
    "AsyncStore.run": ("mia", "new"),
    "AsyncStoreAt.run": ("mia", "run"),
    "agent_context": ("t1", "agent"),
    "adopt": (lambda _: refold.ChatContext(), "adopted"),
    **dict.fromkeys(("AsyncStore.at", "AsyncStore.diff", "what_if"), (lambda store: store.now(),)),
    "name_moment": ("here",),
    "prove": ("chat:validity@1",),
    "prove_consistency": (1,),
    "backup": (lambda store: f"{store.log.database.where}.backup",),
    **dict.fromkeys(("validity", "entries", "AsyncStore.audit"), ("chat:validity",)),
    "AsyncStore.search": ("hello",),
    "AsyncStore.archive": (lambda store: f"{store.log.database.where}.cold", "chat:archive"),
    "AsyncStore.unarchive": ("chat:unarchive",),
    "AsyncStore.hold": ("chat:hold",),
    "AsyncStore.release": ("chat:release",),
    "AsyncStore.retain": ("chats", 400),
    "AsyncStore.stop_retaining": ("old",),
    "why_gone": ("chat:why_gone", "m2"),
    **dict.fromkeys(("run_nodes", "run_edges", "run_graph"), ("mia", "s")),
    "audit_node": ("Action(look)",),
    "add_projection": (Counts(),),
    "on_folding": (None,),
    **dict.fromkeys(("rows", "rebuild", "check", "discard_rebuild"), ("catalogue",)),
    "AsyncStore.saved_states": ("graph",),
    "AsyncSavedStates.save": ("graph", {"step": {}}),
    **dict.fromkeys(("AsyncSavedStates.last", "AsyncSavedStates.all"), ("graph",)),
    "AsyncSavedStates.at": (1,),
}  # fmt: skip


BY = {"by": "mia"}
NAMED: dict[str, dict[str, Any]] = {
    "approve": BY,
    "reject": BY,
    "AsyncApprovals.change": BY,
    "register_node": ACTION,
    "merge_with_summary": {"llm": llm()},
    "AsyncMemory.get": {"scope": "s", "key": "k"},
    "AsyncMemory.search": {"scope": "s"},
    "AsyncMemory.history": {"scope": "s"},
    "AsyncMemory.forget": {"scope": "s", "key": "k"},
    "AsyncMemory.restore": {"scope": "s", "key": "gone"},
    "AsyncMemoryScope.forget": {"key": "k"},
    "AsyncMemoryScope.restore": {"key": "gone"},
    "AsyncStore.erase": {"context": "chat:erase", "why": "a test", "dry_run": False},
    "AsyncStore.archive": {"why": "a test"},
    "AsyncStore.hold": {"why": "a test"},
    "AsyncStore.release": {"why": "a test"},
    "AsyncStore.retain": {"kind": "chat", "why": "a test"},
    "AsyncStore.stop_retaining": {"why": "a test"},
}


@contextmanager
def database_calls() -> Iterator[list[str]]:
    """Note the calls of the database that this thread makes, which is the thread of the loop."""
    made: list[str] = []

    def note(frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and isinstance(getattr(called, "__self__", None), sqlite3.Connection | sqlite3.Cursor):
            made.append(called.__name__)

    sys.setprofile(note)
    try:
        yield made
    finally:
        sys.setprofile(None)


def members(kind: type[AsyncProxy[Any]]) -> list[str]:
    """Return the public names of an async class."""
    of_proxies = {name for base in (AsyncProxy, StoreProxy) for name in vars(base)}
    return [name for name in dir(kind) if not name.startswith("_") and name not in of_proxies]


def called(sibling: Any, name: str, store: refold.Store) -> Callable[[], Awaitable[Any]] | None:
    """Return a function that begins a call, or the reading of a value; None for a value that needs no wait."""
    kind = type(sibling).__name__
    found = getattr(sibling, name)
    if isinstance(found, Awaitable):
        return lambda: found
    if not inspect.iscoroutinefunction(found):
        return None
    given = GIVEN.get(f"{kind}.{name}", GIVEN.get(name, ()))
    made = [one(store) if inspect.isfunction(one) else one for one in given]
    return lambda: found(*made, **NAMED.get(f"{kind}.{name}", NAMED.get(name, {})))


async def turned(begin: Callable[[], Awaitable[Any]], holder: sqlite3.Connection) -> tuple[list[str], Any]:
    """Begin a call under the lock and turn the loop before it ends; return the database calls of the loop's thread."""
    holder.execute("BEGIN IMMEDIATE")
    with database_calls() as made:
        call = asyncio.ensure_future(begin())
        for _ in range(TURNS):
            await asyncio.sleep(0)
        sys.setprofile(None)
        holder.rollback()
    with database_calls() as made_after:
        try:
            result = await call
        except RefusedError:
            # The call looked at the context first.
            result = None
    return made + made_after, result


@pytest.mark.parametrize("kind", MADE)
def test_every_call_lets_the_loop_turn(tmp_path: Path, kind: str) -> None:
    """Nothing waits for the writer lock, and nothing reads the database, in the thread of the loop."""
    path = tmp_path / "store.db"
    names = members(getattr(siblings, kind))
    with refold.open(path) as store, sqlite3.connect(path, isolation_level=None) as holder:
        for name in names:
            sibling: Any = refold.to_async(MADE[kind](store, name))
            assert type(sibling).__name__ == kind
            begin = called(sibling, name, store)
            if hasattr(sibling.sync, "cleanup"):
                sibling.sync.cleanup()
            with database_calls() as at_once:
                getattr(sibling, name)
                repr(sibling)
            assert at_once == [], f"{kind}.{name}"
            if begin is None:
                continue
            made, result = asyncio.run(turned(begin, holder))
            assert made == [], f"{kind}.{name}"
            if hasattr(result, "stop"):
                asyncio.run(result.stop()) if name == "start_projections" else result.stop()
    holder.close()


async def test_a_sync_call_is_noticed(tmp_path: Path) -> None:
    """The same call of the sync chat uses the database in the thread of the loop."""
    with refold.open(tmp_path / "store.db") as store:
        made_by_hand = chat(store, "a")
        with database_calls() as made:
            made_by_hand.add_message("user", "more")
        with database_calls() as made_async:
            await refold.to_async(made_by_hand).add_message("user", "more")

    assert "execute" in made
    assert made_async == []
