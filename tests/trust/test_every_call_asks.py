"""Every public method and property of every public class asks `allow`, or is listed here with the reason why not."""

import asyncio
import inspect
from typing import Any

import pytest

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import NotAllowedError, ReadOnlyError
from refold.domain.log.log_over import GatedLog
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.overlay_log import OverlayLog
from refold.domain.log.ports import LiveLog, Log
from refold.domain.pool.items import ContextItem as PoolItem
from refold.domain.window.items import ContextItem as BudgetItem
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.sqlite.log import SqliteLog
from refold.infrastructure.trust.gated_store import UNASKED
from refold.infrastructure.trust.sealed_log import SealedLog

from .policy import Policy, filled

NAMES = "it is part of the name of the handle"
NUMBER = "it is a number, or a place in the log"
EARLIER = "what it finishes was asked for before"
HERE = "it concerns objects of this process alone"
LATER = "it gives a handle, whose calls ask"
INNER = "it is called by Refold's own modules with events or commands, which ask when they are recorded or read"
HARMLESS: dict[str, str] = {
    **dict.fromkeys(
        (
            "id", "root", "stream_id", "stream_kind", "is_detached", "agent", "run_id", "session_id", "sub_id",
            "user_id", "scope", "message_id", "hook_types",
        ),
        NAMES,
    ),
    **dict.fromkeys(("version_at", "max_notification_id", "moment", "is_ahead"), NUMBER),
    **dict.fromkeys(("flush", "aflush", "wait_pending_tasks", "wait_portraits", "finish_portraits"), EARLIER),
    **dict.fromkeys(("cleanup", "has_hooks", "summary_failure", "stop", "use", "news", "portray_with"), HERE),
    **dict.fromkeys(("approvals", "saved_states", "stream", "memory", "log", "write", "awrite", "subscribe"), LATER),
    **dict.fromkeys(("attach", "adopted_events", "added_event", "fire", "put_in", "repeated"), INNER),
    **dict.fromkeys(("change", "mark_of"), INNER),
    "ack": "it moves the place of a subscription, which was asked for",
    "insert_events": "it refuses always",
    "profiling": "it needs a model, and then changes nodes as `modify_node` does",
    "init_todolist": "it is refused without workflows, and then appends as `append_todo` does",
    "record_messages": "without messages it does nothing; each message is an event, which asks",
    "keep": "the branches were asked for when they were made, and the log asks for what it takes of them",
    **dict.fromkeys(("add_context",), "it is `window.add`, which asks"),
}  # fmt: skip
# The same names ask where they are those of another class; and one of a class that asks elsewhere.
ASKING = {("Memory", "scope"), ("MemoryAt", "scope"), ("Approvals", "change"), ("Store", "subscribe")}
GIVING_HANDLES = {("Memory", "at"), ("MemoryAt", "at")}
MESSAGE = {"role": "user", "content": "x"}
ITEM = BudgetItem(key="n", value="v", source="s")
RECORD = refold.MemoryRecord(scope="s", key="k", value="w", kind=refold.MemoryKind.SEMANTIC)
# The arguments of a call, by the names of the parameters that have no default.
GIVEN: dict[str, Any] = {
    "role": "user", "content": "x", "name": "f", "arguments": "{}", "output": "1", "call_id": "c1", "to_agent": "b",
    "items": [refold.ChatMessage(role=refold.ChatRole.USER, content=["x"])], "messages": [MESSAGE], "call": "c1",
    "moment": "pos:3",
    "ids": ["m1"], "instructions": "x", "item_id": "m1", "policy": lambda chat: chat, "count": 1, "key": "k",
    "scope": "s", "context_id": "a", "source": "Query(0)", "target": "Query(0)", "by": "me", "framework": "f",
    "values": {"a": {}}, "version": 1, "text": "x", "user_id": "u", "session_id": "s", "subject": "a",
    "node": "Query(0)", "before": "pos:1", "context": "a", "projection": object(), "query": "hi", "tell": None,
    "endpoint_name": "e", "trace_id": "t", "id": "i", "graph_node_label": "Query(0)", "changes": {}, "run_id": 0,
    "node_type": "Data", "description": "d", "predecessor_node": "Query(0)", "llm": None, "record": RECORD,
    "step": 2, "originator_id": "chat:a", "start": 0, "limit": 5, "after": 0, "topics": (), "stop": None,
    "action_node_label": "Query(0)", "data_node_label": "Query(0)", "change": lambda it: it.version, "item": ITEM,
    "tag": "x", "value": "v", "event": "chat:a@1", "earlier": 1, "path": "nowhere/x", "why": "w", "keep": 9,
    "file": "nowhere/x",
}  # fmt: skip


class Llm:
    """A model that answers nothing, because nobody asks it."""

    async def chat(self, *args: object, **options: object) -> str:
        """Return no summary."""
        return ""


def given(kind: str, handles: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for the methods of a class: items and other contexts are of the same kind."""
    same = {"Chat": "ChatContext", "Queue": "other queue", "Pool": "other pool"}
    other = next((handles[name] for sort, name in same.items() if sort in kind), None)
    item = {"Chat": GIVEN["items"][0], "Queue": PoolItem(id="n", content="x", description="x")}
    mine = next((one for sort, one in item.items() if sort in kind), PoolItem(id="n", content="x", description="x"))
    context = "both" if kind == "WhatIf" else "a"
    return {**GIVEN, "context_id": context, "llm": Llm(), "other": other, "item": ITEM if "Window" in kind else mine}


def names_of(handle: Any) -> list[str]:
    """Return the public methods and properties of a handle's class."""
    kind = type(handle)
    found = [name for name in dir(kind) if not name.startswith("_")]
    return [name for name in found if isinstance(inspect.getattr_static(kind, name), property) or _is_call(kind, name)]


def _is_call(kind: type, name: str) -> bool:
    return inspect.isfunction(inspect.getattr_static(kind, name))


async def used(handle: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Read a property, or call a method with the arguments that it must have."""
    found = getattr(handle, name)
    if not _is_call(type(handle), name):
        return found
    if name == "record_items":
        arguments = {"items": [MessageAdded(id="n", created_at=1.0, role="user", content=("x",))]}
    wanted = inspect.signature(found).parameters.values()
    least = {
        one.name: arguments[one.name]
        for one in wanted
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }
    result = found(**least)
    return await result if inspect.isawaitable(result) else result


async def silent(kind: str) -> dict[str, str]:
    """Return what each call of a class did that should have been refused, and was not."""
    policy = Policy()
    with refold.open(":memory:", allow=policy) as store:
        handles = await filled(store)
        handle, arguments = handles[kind], given(kind, handles)
        policy.allowed = set()
        found = {}
        for name in names_of(handle):
            listed = UNASKED if kind == "Store" else HARMLESS
            if (kind, name) in GIVING_HANDLES or (name in listed and (kind, name) not in ASKING):
                continue
            try:
                found[name] = f"gave {await used(handle, name, arguments)!r}"
            # A view refuses every change, whoever asks.
            except (NotAllowedError, ReadOnlyError):
                continue
            except Exception as error:
                found[name] = repr(error)
        policy.allowed = None
        return found


KINDS = (
    "Store", "ChatContext", "ContextQueue", "ContextPool", "ContextWindow", "Memory", "MemoryScope", "Run", "Approvals",
    "SavedStates", "MessageStream", "StoreAt", "WhatIf", "Subscription", "StoreRecorder", "ReadOnlyChatContext",
    "ReadOnlyQueue", "ReadOnlyPool", "ReadOnlyContextWindow", "ScopeAt", "MemoryAt", "ReadOnlyRun", "AgentContext",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_it_asks(kind: str) -> None:
    """A refusal of everything stops every call of the class but those that are listed as harmless."""
    assert asyncio.run(silent(kind)) == {}


def test_the_lists_are_of_names_that_exist() -> None:
    """A name that was removed or renamed leaves the lists, too."""

    async def names() -> set[str]:
        with refold.open(":memory:", allow=Policy()) as store:
            return {name for handle in (await filled(store)).values() for name in object.__dir__(handle)}

    assert set(HARMLESS) - asyncio.run(names()) == set()
    assert set(UNASKED) - set(dir(refold.Store)) == set()


@pytest.mark.parametrize("kind", [MemoryLog, OverlayLog, GatedLog, SealedLog, SqliteLog, PostgresLog])
def test_every_log_takes_what_its_port_says(kind: type) -> None:
    """The same parameters with the same defaults, so that a call means the same on each of them."""
    for port in (Log, LiveLog):
        for name, said in inspect.getmembers(port, inspect.isfunction):
            if not name.startswith("_") and hasattr(kind, name):
                taken = inspect.signature(getattr(kind, name)).parameters
                defaults = {one: taken[one].default for one in inspect.signature(said).parameters if one in taken}
                assert defaults == {one: said_of.default for one, said_of in inspect.signature(said).parameters.items()}
