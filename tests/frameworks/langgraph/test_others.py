"""A graph and others in one chat: what they add and take out is part of the state."""

import os
import threading
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph

import refold
from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import FunctionCalled, Origin
from refold.domain.chat.saved_states import SavedStates
from refold.domain.errors import CheckpointSupersededError
from refold.infrastructure.frameworks.langgraph.branch import Branch
from refold.infrastructure.store import Store
from refold.langgraph import RefoldSaver, RefoldStore

from ..test_open_chats import copied
from .graphs import State, chatting, put, said, thread, values
from .test_saver import echo


class Noting(MessagesState):
    """A graph that notes what it read."""

    seen: str


def test_an_edit_of_the_chat_is_one_of_the_state(store: Store) -> None:
    """The newest checkpoint has the messages that the chat shows now; older ones stay what they are."""
    graph = chatting(RefoldSaver(store), echo)
    graph.invoke(said("hello", "h1"), thread())
    before = graph.get_state(thread()).config
    chat = store.chat("t")
    chat.evict("h1")
    chat.add_message("user", "by hand", message_id="x")

    assert [one.id for one in graph.get_state(thread()).values["messages"]] == ["m1", "x"]
    assert [one.id for one in next(graph.get_state_history(thread())).values["messages"]] == ["h1", "m1"]
    graph.invoke(said("more", "h2"), thread())
    chat.refresh()
    assert [item.content for item in chat.messages()] == ["echo 1", ["by hand"], "more", "echo 3"]
    assert len(graph.get_state(thread()).values["messages"]) == 4
    graph.update_state(thread(), {"messages": [RemoveMessage("x")]})
    chat.refresh()
    assert [item.id for item in chat.items] == ["m1", "h2", "m3"]
    assert [one.id for one in graph.get_state(before).values["messages"]] == ["h1", "m1"]


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_message_that_comes_during_a_run_stays(store: Store, *, is_watched: bool) -> None:
    """It is behind the messages of the run, and part of the next one, also if somebody looks at the state meanwhile."""
    saver = RefoldSaver(store)

    def interrupted(state: State) -> dict[str, Any]:
        store.chat("t").add_message("user", "one more thing", message_id=f"x{len(state['messages'])}")
        if is_watched:
            graph.get_state(thread())
        return echo(state)

    graph = chatting(saver, interrupted)
    graph.invoke(said("hello", "h1"), thread())

    assert [item.id for item in store.chat("t").items] == ["h1", "m1", "x1"]
    assert [one.id for one in graph.get_state(thread()).values["messages"]] == ["h1", "m1", "x1"]
    graph.invoke(said("go on", "h2"), thread())
    again = chatting(RefoldSaver(store), echo)
    assert [one.id for one in again.get_state(thread()).values["messages"]] == ["h1", "m1", "x1", "h2", "m4", "x4"]
    # LangGraph saves checkpoints in the background, so that one of them may have a message that came meanwhile.
    counts = [len(one.values.get("messages", ())) for one in again.get_state_history(thread())]
    assert (counts[0], counts == sorted(counts, reverse=True)) == (6, True)


def test_a_graph_goes_on_with_a_chat_of_others(store: Store) -> None:
    """Their messages are the state of the thread before its first checkpoint, and stay in the view."""
    chat = store.chat("t")
    chat.add_message("user", "mine", message_id="x")
    graph = chatting(RefoldSaver(store), echo)
    assert [one.id for one in graph.get_state(thread()).values["messages"]] == ["x"]
    assert store.chat("t").version == 2
    answer = graph.invoke(said("hello", "h1"), thread())

    assert [one.id for one in answer["messages"]] == ["x", "h1", "m2"]
    assert [item.id for item in store.chat("t").items] == ["x", "h1", "m2"]
    assert RefoldSaver(store).threads() == ["t"]
    assert [len(one.values["messages"]) for one in graph.get_state_history(thread())] == [3, 2, 1]
    config: Any = {"configurable": {"thread_id": "u", "checkpoint_ns": ""}}
    store.chat("u").add_message("user", "mine")
    checkpoint = {**empty_checkpoint(), "channel_values": {}}
    RefoldSaver(store).put(config, checkpoint, {}, {})
    assert len(store.chat("u").items) == 1


def test_what_a_run_saved_is_deleted_in_copies_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the thread that was copied, of a copy, and of a copy of that; other runs stay, and no other thread is read."""
    saver = RefoldSaver(store)
    graph = chatting(saver, echo)
    for run in ("r1", "r2"):
        graph.invoke(said("hello", run), {**thread(), "metadata": {"run_id": run}})
    graph.invoke(said("hello", "r1"), {**thread("other"), "metadata": {"run_id": "r1"}})
    saver.copy_thread("t", "copy")
    RefoldSaver(store).copy_thread("copy", "again")
    read: list[str] = []
    read_back = Branch.read_back

    def noted(branch: Branch) -> None:
        read.append(branch.chat.id)
        read_back(branch)

    with monkeypatch.context() as watched:
        watched.setattr(Branch, "read_back", noted)
        RefoldSaver(store).delete_for_runs(["r2"])
    assert "t" in read
    assert "other" not in read

    assert {row.name for row in store.saved_states("langgraph", prefix="run/")} == {"run/r1", "run/r2"}
    for name in ("t", "copy", "again"):
        assert {one.metadata["run_id"] for one in RefoldSaver(store).list(thread(name))} == {"r1"}


def test_what_a_run_saved_in_a_fork_is_deleted(store: Store) -> None:
    """The chat in which the thread begins has nothing of the run, and says which fork has."""
    graph = chatting(RefoldSaver(store), echo)
    graph.invoke(said("hello", "h1"), {**thread(), "metadata": {"run_id": "r1"}})
    first = list(graph.get_state_history(thread()))[-1].config
    graph.invoke(said("hello", "h2"), {**first, "metadata": {"run_id": "r2"}})
    RefoldSaver(store).delete_for_runs(["r2"])

    assert {row.context for row in store.saved_states("langgraph", prefix="run/r2")} != {"chat:t"}
    assert {one.metadata["run_id"] for one in RefoldSaver(store).list(thread())} == {"r1"}


def test_a_thread_is_deleted_beside_others_who_write(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another one adds at that moment is deleted, too, and whoever deletes is not refused."""
    saver = RefoldSaver(store)
    chatting(saver, echo).invoke(said("hello", "h1"), thread())
    clear, others = ChatContext.clear, [store.chat("t")]

    def cleared(chat: ChatContext, **settings: Any) -> None:
        if others:
            # Outside of the transaction, as another program would.
            Context().run(others.pop().add_message, "user", "by another one")
        clear(chat, **settings)

    monkeypatch.setattr(ChatContext, "clear", cleared)
    saver.delete_thread("t")

    assert saver.get_tuple(thread()) is None
    assert list(store.chat("t").items) == []


def test_two_begin_one_thread(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second is refused, also between the look for the chat and its making: the thread has one line."""
    opened, others = Store.chat, [chatting(RefoldSaver(store), echo)]

    def overtaken(self: Store, *given: Any, create: bool = True, **settings: Any) -> ChatContext:
        if create and others:
            # Outside of the transaction, as another program would.
            Context().run(others.pop().invoke, said("theirs", "h1"), thread())
        return opened(self, *given, create=create, **settings)

    monkeypatch.setattr(Store, "chat", overtaken)
    with pytest.raises(CheckpointSupersededError):
        chatting(RefoldSaver(store), echo).invoke(said("ours", "h2"), thread(), durability="sync")

    assert [one.id for one in values(RefoldSaver(store), thread())["messages"]] == ["h1", "m1"]
    assert [item.id for item in store.chat("t").items] == ["h1", "m1"]


def test_two_work_on_two_branches(memory: Store) -> None:
    """The thread goes on from what was saved last, whichever branch it is on, and whoever saved it."""
    ours, theirs = RefoldSaver(memory), RefoldSaver(memory)
    first = put(ours, thread(), n=1)
    put(ours, first, n=2)
    past, last = (
        {one.checkpoint["channel_values"]["n"]: one.config for one in theirs.list(thread())}[n] for n in (1, 2)
    )
    fork = put(ours, past, n=3)
    put(theirs, last, n=4)
    assert values(RefoldSaver(memory), thread()) == {"n": 4}
    put(ours, fork, n=5)

    for one in (ours, theirs, RefoldSaver(memory)):
        assert values(one, thread()) == {"n": 5}


def test_a_thread_is_deleted_or_copied_as_a_whole(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its branches, channels and namespaces: whoever is interrupted at any of them has changed nothing."""
    saver = RefoldSaver(memory)
    first = put(saver, thread(), messages=[HumanMessage("a", id="1")], notes=[HumanMessage("n", id="2")])
    put(saver, first, n=1)
    found = next(one for one in saver.list(thread()) if one.parent_config is None)
    put(saver, found.config, n=2)
    put(saver, {"configurable": {**thread()["configurable"], "checkpoint_ns": "within"}}, n=3)
    before = memory.now()

    def interrupted(owner: type, name: str, last: int) -> bool:
        plain, left = getattr(owner, name), [last]

        def change(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return plain(*given, **named)

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, change)
            try:
                if owner is ChatContext:
                    saver.delete_thread("t")
                else:
                    saver.copy_thread("t", "copy")
            except KeyboardInterrupt:
                return True
        return False

    assert len(list(saver.list(thread()))) == 4
    for owner, name, count in ((SavedStates, "save", 4), (ChatContext, "clear", 4)):
        for last in range(1, count + 1):
            assert interrupted(owner, name, last)
            assert memory.now() == before
        assert not interrupted(owner, name, count + 1)
        before = memory.now()
    assert list(RefoldSaver(memory).list(thread())) == []
    assert len(list(RefoldSaver(memory).list(thread("copy")))) == 4


@pytest.mark.parametrize("is_branch", [False, True])
def test_a_thread_is_pruned_beside_others_who_write(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, is_branch: bool
) -> None:
    """What another one saves at that moment is the newest one, which stays."""
    saver, theirs = RefoldSaver(store), RefoldSaver(store)
    config = put(saver, put(saver, thread(), n=1), n=2)
    if is_branch:
        config = put(saver, next(one for one in saver.list(thread()) if one.parent_config is None).config, n=3)
    save, others = SavedStates.save, [config]

    def saved(states: SavedStates, *given: Any, **settings: Any) -> int:
        if others:
            # Outside of the transaction, as another program would.
            Context().run(put, theirs, others.pop(), n=4)
        return save(states, *given, **settings)

    monkeypatch.setattr(SavedStates, "save", saved)
    saver.prune(["t"])

    for one in (saver, theirs, RefoldSaver(store)):
        assert [values(one, found.config) for found in one.list(thread())] == [{"n": 4}]
        assert values(one, thread()) == {"n": 4}
    assert values(theirs, put(theirs, theirs.get_tuple(thread()).config, n=5)) == {"n": 5}  # type: ignore[union-attr]


def test_a_thread_is_read_once_where_others_come_first(
    tmp_path: Path, events_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try reads what is new: else busy writers would come first again, the sooner the longer the thread is."""
    with refold.open(tmp_path / "s.db") as store:
        saver, theirs = RefoldSaver(store), RefoldSaver(store)
        config = put(saver, thread(), n=0)
        for number in range(1, 30):
            config = put(saver, config, n=number)
        save, others, length = SavedStates.save, [4, 5, 6], store.chat("t").version

        def saved(states: SavedStates, *given: Any, **settings: Any) -> int:
            if others:
                Context().run(theirs.put_writes, config, [("n", others.pop())], f"task{len(others)}")
            return save(states, *given, **settings)

        theirs.get_tuple(thread())
        monkeypatch.setattr(SavedStates, "save", saved)
        # Nothing is left for a projection to read.
        store.contexts()
        events_read.clear()
        saver.prune(["t"])

        assert others == []
        # For the index of its checkpoints, and for the state of the chat, in each of the two savers.
        assert sum(events_read) < 4 * length


@pytest.mark.parametrize(("name", "last"), [("_note_newer", 1), ("_note_key", 2)])
def test_a_look_that_was_interrupted(memory: Store, monkeypatch: pytest.MonkeyPatch, name: str, last: int) -> None:
    """What others saved meanwhile is seen by the next one, and overtakes who goes on from before."""
    saver, theirs = RefoldSaver(memory), RefoldSaver(memory)
    chatting(saver, echo).invoke(said("hello", "h1"), thread())
    seen = saver.get_tuple(thread())
    assert seen is not None
    chatting(theirs, echo).invoke(said("more", "h2"), thread())
    plain, left = getattr(Branch, name), [last]

    def interrupted(*given: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return plain(*given)

    monkeypatch.setattr(Branch, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        saver.get_tuple(thread())
    with pytest.raises(CheckpointSupersededError):
        put(saver, seen.config, n=1)
    for one in (saver, RefoldSaver(memory)):
        assert one.get_tuple(thread()) == theirs.get_tuple(thread())
        assert [found.config for found in one.list(thread())] == [found.config for found in theirs.list(thread())]


def test_a_child_process_has_locks_of_its_own(tmp_path: Path) -> None:
    """It was forked while calls of another thread were going on, which end in the parent alone."""
    is_held, is_over = threading.Event(), threading.Event()
    with refold.open(tmp_path / "s.db") as store:
        saver, memories = RefoldSaver(store), RefoldStore(store)
        put(saver, thread(), n=1)
        held: list[Any] = [saver._thread_named("t", ""), memories, memories.at(1)]

        def hold() -> None:
            with held[0]._lock, held[1]._lock, held[2]._lock:
                is_held.set()
                is_over.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        is_held.wait()
        child = os.fork()
        if child == 0:
            are_free = all(one._lock.acquire(timeout=20) for one in held)
            os._exit(0 if are_free and values(saver, thread()) == {"n": 1} else 1)
        is_over.set()
        holder.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_older_copy_is_put_back(tmp_path: Path) -> None:
    """Threads, with their branches, and memories are read as the database has them then, and can be written to."""
    path, copy = str(tmp_path / "s.db"), str(tmp_path / "copy.db")
    with refold.open(path) as store:
        saver, memories = RefoldSaver(store), RefoldStore(store)
        first = put(saver, thread(), n=1)
        put(saver, first, n=2)
        second = put(saver, next(one for one in saver.list(thread()) if one.parent_config is None).config, n=3)
        memories.put(("u",), "k", {"n": 3})
        copied(path, copy)
        put(saver, second, n=4)
        memories.put(("u",), "k", {"n": 4})
        copied(copy, path)

        for number in (3, 5):
            found, item = saver.get_tuple(thread()), memories.get(("u",), "k")
            assert found is not None
            assert item is not None
            assert found.checkpoint["channel_values"] == item.value == {"n": number}
            put(saver, found.config, n=5)
            memories.put(("u",), "k", {"n": 5})


def test_a_message_that_was_erased_is_gone_and_the_thread_goes_on(memory: Store) -> None:
    """Its copies in the input of the run, in writes of tasks and in a channel leave with it."""
    told = "I live in Elm Street 5, the door is green"
    builder = StateGraph(Noting)
    builder.add_node(
        "note", lambda state: {"seen": state["messages"][-1].content, "messages": [AIMessage("ok", id="a")]}
    )
    builder.add_edge(START, "note")
    graph = builder.compile(checkpointer=RefoldSaver(memory))
    graph.invoke({"messages": [{"role": "user", "content": told, "id": "h1"}]}, thread())

    memory.erase(context="t", item="h1", why="asked for", dry_run=False)

    assert "Elm Street" not in repr(list(graph.get_state_history(thread())))
    assert graph.get_state(thread()).values.keys() == {"messages"}
    assert graph.invoke(said("more", "h2"), thread())["seen"] == "more"


THOUGHT = AIMessage([{"type": "thinking", "thinking": "why?", "signature": "s"}], id="m1")


@pytest.mark.parametrize(
    "message", [THOUGHT, ToolMessage("found", tool_call_id="c1", id="m1"), AIMessage("a", id="m1")]
)
def test_messages_of_which_an_erasure_leaves_less(memory: Store, message: AnyMessage) -> None:
    """Of thinking alone, or an output without a call, nothing is left; a call of others may go with what is left."""
    graph = chatting(RefoldSaver(memory), echo)
    graph.update_state(thread(), {"messages": [HumanMessage("hello", id="h1"), message]})
    call = FunctionCalled(id="f1", created_at=1.0, name="f", arguments="{}", call_id="f1", origin=Origin(starts=False))
    memory.chat("t").record_items([call])
    graph.update_state(thread(), said("more", "h2"))

    memory.erase(context="t", item="m1", why="asked for", dry_run=False)

    again = chatting(RefoldSaver(memory), echo)
    for one in (graph, again):
        states = [state.values["messages"] for state in one.get_state_history(thread())]
        assert "why?" not in repr(states)
        assert [left.id for left in states[0] if left.type == "human"] == ["h1", "h2"]
    assert [left.id for left in graph.invoke(said("go on", "h3"), thread())["messages"]][-3:-1] == ["h2", "h3"]
    for one in (graph, again):
        assert [state.values["messages"] for state in one.get_state_history(thread())][-len(states) :] == states
