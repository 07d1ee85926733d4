"""The contract of idempotency keys: whatever call has one, its repetition changes nothing, and another is refused."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.eviction import Eviction
from refold.domain.chat.items import ChatMessage, ImageContent
from refold.domain.errors import IdempotencyError, InvalidInputError
from refold.domain.log.ports import LiveLog
from refold.domain.memory.records import MemoryRecord
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.window.items import ContextItem as WindowItem
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from .chat_checking import Teller
from .writing import at_once, check_chain, everything

Do = Callable[..., Any]
QUERY = "Query(query00000)"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def said(text: str, **fields: Any) -> ChatMessage:
    """Return a message that is made anew each time: it has an id and a time of its own, and so has its image."""
    return ChatMessage(role="user", content=[text, ImageContent(image="https://x/y.png")], **fields)  # type: ignore[arg-type]


def about(scope: Any, value: object, **fields: Any) -> MemoryRecord:
    """Return a record of a scope that is made anew each time."""
    return MemoryRecord(scope=scope.scope, key="k", value=value, **fields)


def detached(text: str, kind: type[Any]) -> Any:
    """Return a context without a store."""
    context = kind()
    asyncio.run(context.add(ContextItem(text, "d", "new"))) if kind is ContextPool else context.add_message(
        "user", text
    )
    return context


def born(context: Any, number: int) -> str:
    """Return the name of an item: they were put in one by one, behind the event that opened the context."""
    return f"{context.stream_id}@{number + 2}"


# What is done, and what is another thing. `c` is the context, `k` has the key.
CHAT: dict[str, tuple[Do, Do]] = {
    "message": (
        lambda c, **k: c.add_message("user", "pay 10", **k),
        lambda c, **k: c.add_message("user", "pay 99", **k),
    ),
    "role": (lambda c, **k: c.add_message("user", "x", **k), lambda c, **k: c.add_message("developer", "x", **k)),
    "message id": (
        lambda c, **k: c.add_message("user", "x", "i", **k),
        lambda c, **k: c.add_message("user", "x", "j", **k),
    ),
    "message time": (
        lambda c, **k: c.add_message("user", "x", created_at=5.0, **k),
        lambda c, **k: c.add_message("user", "x", created_at=6.0, **k),
    ),
    "image": (
        lambda c, **k: c.add_message("user", [ImageContent(image="https://x/y.png")], **k),
        lambda c, **k: c.add_message("user", [ImageContent(image="https://x/z.png")], **k),
    ),
    "replace": (
        lambda c, **k: c.add_message("system", "be", replace=True, **k),
        lambda c, **k: c.add_message("system", "be", **k),
    ),
    "function": (
        lambda c, **k: c.add_function_call("f", "{}", **k),
        lambda c, **k: c.add_function_call("f", "[]", **k),
    ),
    "output": (
        lambda c, **k: c.add_function_output("f", "1", "c", **k),
        lambda c, **k: c.add_function_output("f", "1", "c", True, **k),
    ),
    "handoff": (lambda c, **k: c.add_handoff("a", **k), lambda c, **k: c.add_handoff("a", "b", **k)),
    "config": (lambda c, **k: c.add_config_update("x", **k), lambda c, **k: c.add_config_update("x", ["t"], **k)),
    "items": (lambda c, **k: c.add_items([said("x")], **k), lambda c, **k: c.add_items([said("x"), said("y")], **k)),
    "item ids": (
        lambda c, **k: c.add_items([said("x", id="i")], **k),
        lambda c, **k: c.add_items([said("x", id="j")], **k),
    ),
    "messages": (
        lambda c, **k: c.add_messages([{"role": "user", "content": "x"}], **k),
        lambda c, **k: c.add_messages([{"role": "user", "content": "y"}], **k),
    ),
    "messages beside a system text": (
        lambda c, **k: c.add_messages([{"role": "user", "content": "x"}], system="s", **k),
        lambda c, **k: c.add_messages([{"role": "user", "content": "x"}], system="t", **k),
    ),
    "insert one": (
        lambda c, **k: c.insert(said("x", created_at=1.5), **k),
        lambda c, **k: c.insert(said("y", created_at=1.5), **k),
    ),
    "insert": (
        lambda c, **k: c.insert_many([said("x", created_at=1.5)], **k),
        lambda c, **k: c.insert_many([said("x", created_at=2.5)], **k),
    ),
    "evict": (lambda c, **k: seen(c.evict({"0", "1"}, **k)), lambda c, **k: c.evict({"2"}, **k)),
    "evict why": (lambda c, **k: seen(c.evict("0", reason="r", **k)), lambda c, **k: c.evict("0", **k)),
    "restore": (lambda c, **k: c.restore("g", **k), lambda c, **k: c.restore(**k)),
    "pin": (lambda c, **k: c.pin("0", **k), lambda c, **k: c.unpin("0", **k)),
    "unpin": (lambda c, **k: c.unpin("p", **k), lambda c, **k: c.unpin("0", **k)),
    "clear": (lambda c, **k: c.clear(**k), lambda c, **k: c.clear(reason="r", **k)),
    "truncate": (lambda c, **k: c.truncate(2, **k) and None, lambda c, **k: c.truncate(1, **k)),
    "name": (lambda c, **k: c.name_version("n", **k), lambda c, **k: c.name_version("o", **k)),
    "name it": (lambda c, **k: c.name_version("n", 2, **k), lambda c, **k: c.name_version("n", 3, **k)),
    "fork": (lambda c, **k: c.fork(**k).id, lambda c, **k: c.fork(agent="a", **k)),
    "fork past": (lambda c, **k: c.at(2).fork(**k).id, lambda c, **k: c.at(3).fork(**k)),
    "fork some": (lambda c, **k: c.fork_filtered(1, tools={"a", "b"}, **k).id, lambda c, **k: c.fork_filtered(2, **k)),
    "fork brief": (lambda c, **k: c.fork_brief("i", "t", **k).id, lambda c, **k: c.fork_brief("i", "u", **k)),
    "copy": (lambda c, **k: c.copy(tools=["a"], **k).id, lambda c, **k: c.copy(tools=["b"], **k)),
    "merge": (
        lambda c, **k: c.merge(detached("x", ChatContext), **k),
        lambda c, **k: c.merge(detached("y", ChatContext), **k),
    ),
    "result": (
        lambda c, **k: c.merge_result(replied(), agent_id="a", **k),
        lambda c, **k: c.merge_result(replied(), agent_id="b", **k),
    ),
    "tell": (
        lambda c, **k: c.merge_with_summary(detached("x", ChatContext), llm=Teller("Told."), **k),
        lambda c, **k: c.merge_with_summary(detached("y", ChatContext), llm=Teller("Told."), **k),
    ),
    "summarize": (
        lambda c, **k: c.summarize(Teller("Told."), keep_recent_turns=1, **k),
        lambda c, **k: c.summarize(Teller("Told."), keep_recent_turns=2, **k),
    ),
}
QUEUE: dict[str, tuple[Do, Do]] = {
    "append": (lambda c, **k: c.append(ContextItem("x"), **k), lambda c, **k: c.append(ContextItem("y"), **k)),
    "evict": (lambda c, **k: c.evict(born(c, 0), **k), lambda c, **k: c.evict(born(c, 1), **k)),
    "restore": (lambda c, **k: c.restore(born(c, 3), **k), lambda c, **k: c.restore(born(c, 0), **k)),
    "clear": (lambda c, **k: c.clear(**k), lambda c, **k: c.append(ContextItem("x"), **k)),
    "settings": (lambda c, **k: c.change_settings(tags=["t"], **k), lambda c, **k: c.change_settings(tags=["u"], **k)),
    "branch": (lambda c, **k: c.branch(2, **k).id, lambda c, **k: c.branch(1, **k)),
}
POOL: dict[str, tuple[Do, Do]] = {
    "add": (
        lambda c, **k: c.add(ContextItem("x", "d", "n"), **k),
        lambda c, **k: c.add(ContextItem("x", "e", "n"), **k),
    ),
    "remove": (lambda c, **k: c.remove("0", **k), lambda c, **k: c.remove("1", **k)),
    "restore": (lambda c, **k: c.restore("g", **k), lambda c, **k: c.restore("0", **k)),
    "merge": (
        lambda c, **k: c.merge(detached("x", ContextPool), **k),
        lambda c, **k: c.merge(detached("y", ContextPool), **k),
    ),
    "merge rule": (
        lambda c, **k: c.merge(detached("x", ContextPool), rule="ours", **k),
        lambda c, **k: c.merge(detached("x", ContextPool), rule="theirs", **k),
    ),
    "branch": (lambda c, **k: c.branch(**k).id, lambda c, **k: c.branch(1, **k)),
}
WINDOW: dict[str, tuple[Do, Do]] = {
    "add": (
        lambda c, **k: c.add(WindowItem("k", "x", "s"), **k),
        lambda c, **k: c.add(WindowItem("k", "x", "s", 1), **k),
    ),
    "put": (lambda c, **k: c.put(WindowItem("0", "x", "s"), **k), lambda c, **k: c.put(WindowItem("0", "y", "s"), **k)),
    "remove": (lambda c, **k: c.remove("0", **k), lambda c, **k: c.remove("1", **k)),
    "evict": (lambda c, **k: c.evict(born(c, 0), **k), lambda c, **k: c.evict(born(c, 1), **k)),
    "restore": (lambda c, **k: c.restore(born(c, 3), **k), lambda c, **k: c.restore(born(c, 0), **k)),
    "clear": (lambda c, **k: c.clear(**k), lambda c, **k: c.remove("0", **k)),
}
MEMORY: dict[str, tuple[Do, Do]] = {
    "put": (lambda c, **k: c.put(about(c, 1), **k), lambda c, **k: c.put(about(c, 2), **k)),
    "put then": (lambda c, **k: c.put(about(c, 1, timestamp=AT), **k), lambda c, **k: c.put(about(c, 1), **k)),
    "forget": (lambda c, **k: c.forget("0", **k), lambda c, **k: c.forget("1", **k)),
    "restore": (lambda c, **k: c.restore("g", **k), lambda c, **k: c.restore(**k)),
}
RUN: dict[str, tuple[Do, Do]] = {
    "node": (
        lambda c, **k: c.register_node("State", "d", [QUERY], label="a", state="x", **k),
        lambda c, **k: c.register_node("State", "d", [QUERY], label="a", state="y", **k),
    ),
    "modify": (
        lambda c, **k: c.modify_node(QUERY, {"description": "x"}, **k),
        lambda c, **k: c.modify_node(QUERY, {"description": "y"}, **k),
    ),
    "step": (lambda c, **k: c.append_todo("a", {"n": 1}, **k), lambda c, **k: c.append_todo("a", {"n": 2}, **k)),
    "take": (lambda c, **k: c.pop_todo(**k), lambda c, **k: c.append_todo("a", **k)),
    "fill": (lambda c, **k: c.init_todolist(["a"], [], **k), lambda c, **k: c.init_todolist(["b"], [], **k)),
    "messages": (
        lambda c, **k: c.record_messages({"role": "user", "content": "x"}, **k),
        lambda c, **k: c.record_messages({"role": "user", "content": "y"}, **k),
    ),
    "close": (lambda c, **k: c.close("done", **k), lambda c, **k: c.close(**k)),
}


def each_call() -> Iterator[tuple[str, str, Do, Do]]:
    """Yield a name for a context of its own, its kind, what is done, and what is another thing."""
    kinds = {"chat": CHAT, "queue": QUEUE, "pool": POOL, "window": WINDOW, "memory": MEMORY, "run": RUN}
    for kind, calls in kinds.items():
        for name, (same, other) in calls.items():
            yield f"{kind}-{name.replace(' ', '-')}", kind, same, other


def seen(eviction: Eviction) -> tuple[Any, ...]:
    """Return what an eviction says."""
    return (
        eviction.version,
        eviction.item_ids,
        eviction.tokens_removed,
        eviction.tokens_kept,
        eviction.first_changed_message,
    )


def replied() -> ChatContext:
    """Return a detached chat that ends with an answer."""
    chat = ChatContext()
    chat.add_message("assistant", "done")
    return chat


def store_on(log: LiveLog) -> Store:
    """Return a store on a log, which knows of no other on it."""
    return Store(log, MemoryProjectionStore())


def handle(log: LiveLog, kind: str, name: str = "c") -> Any:
    """Return a handle on the context of a kind and a name."""
    store = store_on(log)
    match kind:
        case "queue":
            return store.queue(name, limit=5)
        case "memory":
            return store.memory().scope(name)
        case "run":
            return store.run(name, "s")
    return getattr(store, kind)(name)


def done(answer: Any) -> Any:
    """Return the answer of a call, of one that is awaited too; a chat has none of its own."""
    result = asyncio.run(answer) if inspect.iscoroutine(answer) else answer
    return None if isinstance(result, ChatContext) else result


def begun(log: LiveLog, kind: str, name: str = "c") -> Any:
    """Return a context with three items, 0 to 2, and one that left, `g`; of a chat one more is pinned, `p`."""
    context = handle(log, kind, name)
    names = ("0", "1", "2", "g")
    match kind:
        case "chat":
            for number, item in enumerate((*names, "p")):
                context.add_message("user", item, item, float(number + 1))
            context.evict("g")
            context.pin("p")
        case "queue":
            for item in names:
                done(context.append(ContextItem(item)))
            done(context.evict(born(context, 3)))
        case "pool":
            for item in names:
                done(context.add(ContextItem(item, "d", item)))
            done(context.remove("g"))
        case "window":
            for item in names:
                context.add(WindowItem(item, item, "s"))
            context.remove("g")
        case "memory":
            for item in names:
                context.put(MemoryRecord(scope=name, key=item, value=item))
            context.forget("g")
        case "run":
            context.register_query("q")
            for item in names:
                context.append_todo(item)
    return context


class CallsContract:
    """What holds for calls with idempotency keys, whatever log they are recorded in. Needs the fixture `log`."""

    def test_a_call_is_carried_out_once(self, log: LiveLog) -> None:
        """Repeated by the same handle, one that is behind or a new one it says the same; another call is refused."""
        for name, kind, same, other in each_call():
            context, behind, before = begun(log, kind, name), handle(log, kind, name), log.now()
            first = done(same(context, idempotency_key="k"))
            recorded = everything(log, after=before)
            assert recorded[-1].meta.idempotency_key == "k", name

            for again in (context, behind, handle(log, kind, name), handle(log, kind, name)):
                assert done(same(again, idempotency_key="k")) == first, name
                with pytest.raises(IdempotencyError) as refused:
                    done(other(again, idempotency_key="k"))
                assert (refused.value.key, refused.value.recorded[-1]) == ("k", recorded[-1]), name

            assert everything(log, after=before) == recorded, name
            assert handle(log, kind, name).version == context.version, name

    def test_whatever_came_between(self, log: LiveLog) -> None:
        """Another writer has changed everything since: the same call is known, and so is another one."""
        for name, kind, same, other in each_call():
            change = {"memory": "forget", "run": "close"}.get(kind, "clear")
            if name.endswith(("clear", "close")):
                continue
            before = log.now()
            first = done(same(begun(log, kind, name), idempotency_key="k"))
            done(getattr(handle(log, kind, name), change)())
            recorded = everything(log, after=before)

            assert done(same(handle(log, kind, name), idempotency_key="k")) == first, name
            with pytest.raises(IdempotencyError):
                done(other(handle(log, kind, name), idempotency_key="k"))

            assert everything(log, after=before) == recorded, name

    def test_who_comes_first(self, log: LiveLog) -> None:
        """Of two calls under one key, four times each at once and among other writers, one is recorded, once."""
        begun(log, "chat")
        answers: list[str] = []
        refused: list[str] = []

        def write(text: str) -> None:
            chat = handle(log, "chat")
            chat.add_message("user", "other")
            try:
                answers.append(chat.add_message("user", text, idempotency_key="k").id)
            except IdempotencyError:
                refused.append(text)
            chat.add_message("user", "other")

        raised = at_once(*(lambda text=text: write(text) for text in ("10", "99") * 4))

        keyed = [one for one in log.read("chat:c") if one.meta.idempotency_key == "k"]
        assert (raised, len(keyed), len(refused), len(log.read("chat:c"))) == ([], 1, 4, 8 + 16 + 1)
        assert set(answers) == {keyed[0].event.id}
        assert {keyed[0].event.content[0], *refused} == {"10", "99"}
        check_chain(log.read("chat:c"))

    def test_another_call_that_was_queued(self, log: LiveLog) -> None:
        """It is refused by the flush, with what was queued behind it; the view is what the log holds."""
        begun(log, "chat").add_message("user", "10", idempotency_key="k")
        store = store_on(log)
        chat = store.chat("c", durability="enqueue")
        chat.add_message("user", "10", idempotency_key="k")
        chat.flush()
        chat.add_message("user", "99", idempotency_key="k")
        other = store.chat("d", durability="enqueue")
        other.add_message("user", "fine")

        with pytest.raises(IdempotencyError) as refused:
            store.flush()

        assert [event.content for event in refused.value.refused] == [("99",)]
        assert list(chat.items) == list(handle(log, "chat").items)
        assert (log.head("chat:c"), chat.version, log.head("chat:d")) == (9, 9, 2)

    def test_a_queued_call_keeps_its_key(self, log: LiveLog) -> None:
        """Whatever is queued before and behind it: it is known afterwards, and nothing else bears its key."""
        begun(log, "chat")
        store = store_on(log)
        chat = store.chat("c", durability="enqueue")
        for number in range(30):
            chat.add_message("user", f"{number}", idempotency_key=None if number % 3 else f"k{number}")
        store.flush()
        recorded = everything(log)

        for number in range(0, 30, 3):
            handle(log, "chat").add_message("user", f"{number}", idempotency_key=f"k{number}")

        assert everything(log) == recorded
        assert [one.meta.idempotency_key for one in recorded[-3:]] == ["k27", None, None]

    def test_a_key_is_not_empty(self, log: LiveLog) -> None:
        """All calls with a key that was not filled in would be one call."""
        chat = begun(log, "chat")

        with pytest.raises(InvalidInputError, match="the idempotency key is empty"):
            chat.add_message("user", "x", idempotency_key="")
        assert len(chat.items) == 4
