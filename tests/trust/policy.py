"""A policy whose answer a test sets, and that notes for what it was asked."""

from typing import Any

import refold
from refold.domain.pool.items import ContextItem as PoolItem
from refold.domain.window.items import ContextItem as BudgetItem

Asked = tuple[str | None, str, str | None]


class Policy:
    """Allows the actions of `allowed`, or everything if that is None."""

    def __init__(self) -> None:
        self.allowed: set[str] | None = None
        self.asked: list[Asked] = []

    def __call__(self, actor: str | None, action: str, context: str | None) -> bool:
        self.asked.append((actor, action, context))
        return self.allowed is None or action in self.allowed


async def filled(store: refold.Store) -> dict[str, Any]:
    """Return handles of everything that a store can hold, each with something in it, and loaded."""
    chat = store.chat("a")
    chat.add_message("user", "hi", message_id="m1")
    chat.add_function_call("f", "{}", "c1")
    chat.name_version("start")
    other = store.chat("b")
    other.add_message("user", "secret")
    for opened in (store.chat, store.queue, store.pool):
        opened("both")
    queue, pool = store.queue("q"), store.pool("p")
    await queue.append(PoolItem(content="one", description="one"))
    await pool.add(PoolItem(id="i", content="one", description="one"))
    window = store.window("w")
    window.add(BudgetItem(key="k", value="v", source="s"))
    memory = store.memory()
    scope = memory.scope("s")
    scope.put(refold.MemoryRecord(scope="s", key="k", value="v", kind=refold.MemoryKind.SEMANTIC))
    run = store.run("u", "s")
    run.register_query("why?")
    then = store.at(store.now())
    followed = store.subscribe()
    next(followed)
    handles = {
        "Store": store, "ChatContext": chat, "ContextQueue": queue, "ContextPool": pool, "ContextWindow": window,
        "Memory": memory, "MemoryScope": scope, "Run": run, "Approvals": chat.approvals,
        "SavedStates": chat.saved_states, "MessageStream": chat.stream(), "StoreAt": then,
        "WhatIf": store.what_if(store.now()), "Subscription": followed, "StoreRecorder": recorder_of(store),
        "ReadOnlyChatContext": chat.at(2), "ReadOnlyQueue": queue.at(2), "ReadOnlyPool": pool.at(2),
        "ReadOnlyContextWindow": window.at(2), "ScopeAt": scope.at(1), "MemoryAt": memory.at(store.now()),
        "ReadOnlyRun": run.at(2), "AgentContext": store.agent_context("t", "agent"),
        "other queue": store.queue("both"), "other pool": store.pool("both"),
    }  # fmt: skip
    for handle in handles.values():
        # Loaded, and its answers made once: so a refusal below is not the log's.
        for name in ("items", "version", "nodes"):
            getattr(handle, name, None)
    return handles


def recorder_of(store: refold.Store) -> Any:
    """Return the store's recorder; where positions count within slices, that of one chat."""
    return store.recorder("chat:a") if store.log.has_slices else store.recorder()
