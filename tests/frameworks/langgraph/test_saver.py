"""A thread is a chat: what is recorded, who is refused, and what comes back."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import refold
from refold.domain.context.journal import CATCH_UPS_MAX
from refold.domain.errors import (
    CheckpointSupersededError,
    ConcurrencyError,
    DamagedError,
    DecisionRefusedError,
    InvalidInputError,
)
from refold.infrastructure.frameworks.langgraph import saver as saver_module
from refold.infrastructure.frameworks.langgraph.thread import Thread
from refold.infrastructure.frameworks.langgraph.values import Values
from refold.infrastructure.store import Store
from refold.langgraph import RefoldSaver

from .graphs import LOOP, State, chatting, everything, put, said, thread, values


@dataclasses.dataclass
class Plan:
    """A type of the user's."""

    steps: list[str]


class Note(HumanMessage):
    """A message of the user's."""

    mood: str = "good"


def echo(state: State) -> dict[str, Any]:
    """Answer the last message."""
    return {"messages": [AIMessage(f"echo {len(state['messages'])}", id=f"m{len(state['messages'])}")]}


def test_a_thread_is_a_chat(memory: Store) -> None:
    """Its messages are items, with calls, outputs and usage, each once; every other form reads them."""
    graph = everything(RefoldSaver(memory))
    graph.invoke(said("hello", "h1"), thread())
    chat = memory.chat("t")

    assert [type(item).__name__ for item in chat.items] == [
        "ChatMessage", "FunctionCall", "FunctionCall", "FunctionCallOutput", "FunctionCallOutput", "ChatMessage",
    ]  # fmt: skip
    assert next(item.id for item in chat.items) == "h1"
    assert chat.pending_calls() == []
    sent = chat.to_openai_messages()
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "assistant"]
    chat.to_anthropic_messages()
    (row,) = [row for row in memory.usage(by=["model"]) if row.model]
    assert (row.model, row.counted_in, row.counted_out) == ("small", 3, 4)
    assert {event.meta.actor for event in chat.recorded_events()} == {"langgraph"}


def test_values_belong_to_those_who_load_them(memory: Store) -> None:
    """A change of what was loaded or saved changes nothing in the saver."""
    saver, notes, messages = RefoldSaver(memory), ["a"], [HumanMessage(["text", {"type": "x"}], id="1")]
    config = put(saver, thread(), messages=messages, notes=notes)
    notes.append("b")
    loaded = values(saver, config)
    loaded["notes"].append("c")
    loaded["messages"][0].content.append("more")
    messages[0].content.append("more")

    again = values(saver, config)
    assert again["notes"] == ["a"]
    assert again["messages"] == [HumanMessage(["text", {"type": "x"}], id="1")]


def test_messages_share_no_defaults(memory: Store) -> None:
    """A list or an object that a message has by default is its own, in a saver that has just been opened, too."""
    put(RefoldSaver(memory), thread(), messages=[AIMessage("a", id="1"), AIMessage("b", id="2")])
    saver = RefoldSaver(memory)
    changed, other = values(saver, thread())["messages"]
    changed.additional_kwargs["x"] = changed.response_metadata["x"] = 1
    changed.tool_calls.append({"name": "f", "args": {}, "id": "c"})
    changed.invalid_tool_calls.append({"name": "f", "args": "{", "id": "c", "error": "cut"})
    changed.unknown = "new"

    assert other == AIMessage("b", id="2")
    for opened in (saver, RefoldSaver(memory)):
        assert values(opened, thread())["messages"] == [AIMessage("a", id="1"), AIMessage("b", id="2")]


ODD = [
    HumanMessage("", id="1"),
    HumanMessage("without an id"),
    HumanMessage(["a", {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}], id="2", name="Ann"),
    HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}], id="3"),
    HumanMessage(["a", {"type": "image_url", "image_url": {"url": "data:image/png;base64"}}], id="10"),
    AIMessage("", id="4", tool_calls=[{"name": "f", "args": {"b": 1, "a": [True, 1.0, None]}, "id": None}]),
    AIMessage("x", id="5", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c", "error": "cut"}]),
    ToolMessage([{"type": "text", "text": "out"}], tool_call_id="c9", id="6", status="error", artifact=Plan(["s"])),
    Note("mine", id="7", mood="bad"),
    AIMessage("extra", id="8", additional_kwargs={"when": (1, 2), 3: 4}, unknown="kept"),
    HumanMessage("plain", id="9", unknown="kept"),
    HumanMessage("the same id", id="1"),
]


def test_half_of_a_character_is_kept_as_langgraph_keeps_it(memory: Store) -> None:
    """Its serializer has another character in its place."""
    saver, stock = RefoldSaver(memory), InMemorySaver()
    given: dict[str, Any] = {"text": "half \ud800", "deep": [{"a": "\udc00"}]}
    for one in (saver, stock):
        put(one, thread(), **given)

    assert values(saver, thread()) == values(RefoldSaver(memory), thread()) == values(stock, thread())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_message_comes_back(memory: Store) -> None:
    """Whatever it has in it, for the saver that saved it and for a new one, as from LangGraph's own."""
    for number, message in enumerate(ODD):
        config = thread(f"t{number}")
        saver, stock = RefoldSaver(memory), InMemorySaver()
        put(saver, config, messages=[message])
        put(stock, config, messages=[message])
        expected = values(stock, config)

        assert values(saver, config) == expected
        assert values(RefoldSaver(memory), config) == expected
    put(RefoldSaver(memory), thread("all"), messages=ODD)
    loaded = values(RefoldSaver(memory), thread("all"))["messages"]
    assert [one.content for one in loaded] == [one.content for one in ODD]
    assert [one.id for one in loaded] == [one.id for one in ODD]


def test_other_values_come_back(memory: Store) -> None:
    """JSON with its keys in their order, and what the serializer keeps; None and an empty channel."""
    given: dict[str, Any] = {
        "ordered": {"b": 1, "a": {"z": 1.0, "y": 10**30}},
        "pair": (1, {"x"}),
        "plan": Plan(["a"]),
        "nothing": None,
        "odd": {1: "one", "nan": float("inf")},
        "bytes": b"\0\1",
        "texts": ["", "é\U0001f600"],
    }
    config = put(RefoldSaver(memory), thread(), **given)

    found = values(RefoldSaver(memory), config)
    assert found == {**given, "pair": [1, {"x"}]}
    assert list(found["ordered"]) == ["b", "a"]


def test_a_second_worker_is_refused(store: Store) -> None:
    """Both began from the same checkpoint; the error names it, and nothing of the second run is recorded."""
    savers = [RefoldSaver(store), RefoldSaver(store)]
    chatting(savers[0], echo).invoke(said("hello", "h1"), thread())

    def overtaken(state: State) -> dict[str, Any]:
        chatting(savers[1], echo).invoke(said("quicker", "h3"), thread(), durability="sync")
        return echo(state)

    # Saved in the background, a checkpoint of the slow run might come before or after those of the quick one.
    with pytest.raises(CheckpointSupersededError) as refused:
        chatting(savers[0], overtaken).invoke(said("slow", "h2"), thread(), durability="sync")
    newest = savers[1].get_tuple(thread())
    assert newest is not None
    assert refused.value.checkpoint
    assert refused.value.newest == newest.checkpoint["id"]
    assert refused.value.checkpoint in str(refused.value)
    assert len(list(store.contexts())) == 1
    chatting(savers[0], echo).invoke(said("again", "h4"), thread())


def test_the_first_run_of_a_thread_is_refused_too(memory: Store) -> None:
    """Two runs that both found no thread do not become two branches."""

    def overtaken(state: State) -> dict[str, Any]:
        chatting(RefoldSaver(memory), echo).invoke(said("quicker", "h3"), thread())
        return echo(state)

    with pytest.raises(CheckpointSupersededError, match="saved since"):
        chatting(RefoldSaver(memory), overtaken).invoke(said("slow", "h2"), thread(), durability="exit")
    assert len(list(memory.contexts())) == 1


def test_a_worker_catches_up(store: Store) -> None:
    """Between two runs of one, another one worked: nobody is refused."""
    graphs = [chatting(RefoldSaver(store), echo) for _ in range(2)]
    for turn in range(6):
        result = graphs[turn % 2].invoke(said("hello", f"h{turn}"), thread())

    assert len(result["messages"]) == 12
    assert len(store.chat("t").items) == 12


def test_a_branch_is_a_fork_of_the_chat(memory: Store) -> None:
    """The chat that was, stays as it was; the thread goes on in the fork."""
    graph = chatting(RefoldSaver(memory), echo)
    for turn in range(3):
        graph.invoke(said("hello", f"h{turn}"), thread())
    old = next(state for state in graph.get_state_history(thread()) if len(state.values.get("messages", ())) == 2)
    graph.update_state(old.config, said("other", "o1"))

    (row,) = [row for row in memory.contexts() if row.parent]
    assert row.parent.startswith("chat:t@")
    assert [item.id for item in memory.chat(row.id).items] == ["h0", "m1", "o1"]
    assert len(memory.chat("t").items) == 6
    assert [one.id for one in graph.get_state(thread()).values["messages"]] == ["h0", "m1", "o1"]
    assert len(graph.invoke(said("go on", "h9"), thread())["messages"]) == 5


@pytest.mark.parametrize("value", [lambda: 1, {"deep": [object()]}, {"\udc00": 1}, LOOP])
def test_a_value_that_cannot_be_saved_changes_nothing(memory: Store, value: Any) -> None:
    """The error names the channel."""
    saver = RefoldSaver(memory)
    config = put(saver, thread(), n=1)
    before = memory.chat("t").version

    with pytest.raises(InvalidInputError, match="the channel 'bad'"):
        put(saver, config, messages=[HumanMessage("x", id="1")], bad=value)
    with pytest.raises(InvalidInputError, match="'bad'"):
        saver.put_writes(config, [("bad", value)], "task")
    assert memory.chat("t").version == before
    assert values(saver, put(saver, config, n=2)) == {"n": 2}


def test_no_code_is_loaded_that_is_not_allowed(memory: Store) -> None:
    """A strict serializer refuses unknown types when they are saved, and when they are loaded."""
    strict = RefoldSaver(memory, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    config = put(RefoldSaver(memory), thread(), plan=Plan(["a"]))

    with pytest.raises(InvalidInputError, match=r"Plan to allowed_msgpack_modules"):
        strict.get_tuple(config)
    with pytest.raises(InvalidInputError, match=r"Plan to allowed_msgpack_modules"):
        put(strict, config, plan=Plan(["a"]))
    allowed = strict.with_allowlist([(Plan.__module__, "Plan")])
    assert values(allowed, config) == {"plan": Plan(["a"])}
    with pytest.raises(InvalidInputError, match="pickle"):
        put(RefoldSaver(memory, serde=JsonPlusSerializer(pickle_fallback=True)), thread("p"), run=object())


def test_messages_are_never_said_to_be_encrypted(memory: Store) -> None:
    """They are items, which are stored as they are."""

    class Cipher:
        """No cipher."""

        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            """Return it."""
            return "none", plaintext

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            """Return it."""
            return ciphertext

    with pytest.raises(InvalidInputError, match="open the store with keys"):
        RefoldSaver(memory, serde=EncryptedSerializer(Cipher()))


def test_what_was_deleted_is_in_the_log(memory: Store) -> None:
    """A thread begins again under the same id, also with the same messages."""
    saver = RefoldSaver(memory)
    graph = everything(saver)
    graph.invoke(said("hello", "h1"), thread())
    version = memory.chat("t").version
    saver.delete_thread("t")

    assert saver.get_tuple(thread()) is None
    assert saver.threads() == []
    assert [item.id for item in memory.chat("t").items] == []
    assert len(memory.chat("t").at(version).items) == 6
    result = graph.invoke(said("hello", "h1"), thread())
    assert next(one.id for one in result["messages"]) == "h1"
    assert len(list(graph.get_state_history(thread()))) == 5
    assert RefoldSaver(memory).threads() == ["t"]


def test_a_copy_goes_on_by_itself(memory: Store) -> None:
    """With its branches and all its states; the thread that was copied does not change."""
    saver = RefoldSaver(memory)
    graph = chatting(saver, echo)
    for turn in range(3):
        graph.invoke(said("hello", f"h{turn}"), thread())
    graph.update_state(list(graph.get_state_history(thread()))[4].config, said("other", "o1"))
    saver.copy_thread("t", "copy")
    states, copied = (list(graph.get_state_history(thread(name))) for name in ("t", "copy"))

    assert [one.values for one in copied] == [one.values for one in states]
    graph.invoke(said("go on", "h9"), thread("copy"))
    fresh = chatting(RefoldSaver(memory), echo)
    assert len(fresh.get_state(thread("copy")).values["messages"]) == len(states[0].values["messages"]) + 2
    assert fresh.get_state(thread()).values == states[0].values
    with pytest.raises(DecisionRefusedError, match="copy to another one"):
        saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    assert len(list(RefoldSaver(memory).list(thread("copy")))) == len(states) + 3


def test_pruned_checkpoints_still_have_their_writes(memory: Store) -> None:
    """A channel that is kept as changes is put together from all of them."""
    saver = RefoldSaver(memory)
    config = put(saver, thread(), log=["seed"])
    for number in range(3):
        saver.put_writes(config, [("log", [number])], f"task{number}")
        config = put(saver, config, other=number)
    expected = saver.get_delta_channel_history(config=config, channels=["log"])
    saver.prune(["t"])

    fresh = RefoldSaver(memory)
    assert len(list(fresh.list(thread()))) == 1
    assert fresh.get_delta_channel_history(config=config, channels=["log"]) == expected
    assert expected["log"] == {"writes": [(f"task{n}", "log", [n]) for n in range(3)], "seed": ["seed"]}
    with pytest.raises(InvalidInputError, match="strategy"):
        fresh.prune(["t"], strategy="none")


def test_writes_may_come_before_their_checkpoint(memory: Store) -> None:
    """A run saves checkpoints in the background; also where they begin a branch."""
    saver = RefoldSaver(memory)
    put(saver, put(saver, thread(), n=1), n=2)
    checkpoint = empty_checkpoint()
    named = {"configurable": {**thread()["configurable"], "checkpoint_ns": "", "checkpoint_id": checkpoint["id"]}}
    saver.put_writes(named, [("n", 5)], "task")
    parent = next(found for found in saver.list(thread()) if found.parent_config is None)
    saver.put(parent.config, checkpoint, {"source": "update", "step": 1}, {})

    for one in (saver, RefoldSaver(memory)):
        found = one.get_tuple(thread())
        assert found is not None
        assert found.checkpoint["id"] == checkpoint["id"]
        assert found.pending_writes == [("task", "n", 5)]


def test_writes_on_a_checkpoint_of_another_branch(memory: Store) -> None:
    """They are kept where it is, and not with the newest one."""
    saver = RefoldSaver(memory)
    first = put(saver, thread(), n=1)
    second = put(saver, first, n=2)
    # Who looked at a checkpoint of the past may branch off.
    looked_at = next(found for found in saver.list(thread()) if found.parent_config is None)
    newest = put(saver, looked_at.config, n=3)
    saver.put_writes(second, [("n", 9)], "late")

    for one in (saver, RefoldSaver(memory)):
        written = [one.get_tuple(config).pending_writes for config in (first, second, newest)]  # type: ignore[union-attr]  # they are there
        assert written == [[], [("late", "n", 9)], []]
    # A copy goes on from the newest one, whichever branch has it.
    put(saver, second, n=4)
    saver.copy_thread("t", "copy")
    assert values(saver, thread("copy")) == {"n": 4}
    saver.prune(["t"])
    # By these names later versions find what is saved.
    chats = [memory.chat(row.id) for row in memory.contexts()]
    names = {saved.key.partition("/")[0] for chat in chats for saved in chat.saved_states.all("langgraph")}
    assert names == {"thread", "branch", "checkpoint", "value", "writes", "kept"}


def test_ids_of_threads_and_namespaces(memory: Store) -> None:
    """A slash in one is not that of the other; a namespace may be long; an id that is none is refused."""
    saver = RefoldSaver(memory)
    names = [("a/b", ""), ("a", "b"), ("a", "x|" * 200), ("50%@..", "")]
    for thread_id, namespace in names:
        put(saver, {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}}, n=f"{thread_id} {namespace}")

    for thread_id, namespace in names:
        config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}}
        assert values(saver, config) == {"n": f"{thread_id} {namespace}"}
    assert saver.threads() == ["50%@..", "a", "a/b"]
    # The name of what is stored must stay.
    assert memory.chat("a/07c35dbaeca34229bd0191d011a0faf6", create=False).version
    saver.delete_thread("a")
    assert saver.threads() == ["50%@..", "a/b"]
    with pytest.raises(InvalidInputError, match="thread_id"):
        saver.get_tuple({"configurable": {}})
    with pytest.raises(InvalidInputError, match="the thread ''"):
        saver.get_tuple(thread(""))


def test_versions_of_channels_follow_those_of_other_savers() -> None:
    """Numbers here; a text where another saver began with one, and greater than that."""
    with refold.open(":memory:") as store:
        saver = RefoldSaver(store)
        theirs = InMemorySaver().get_next_version(None, None)

        assert [saver.get_next_version(None, None), saver.get_next_version(7, None)] == [1, 8]
        assert saver.get_next_version(theirs, None) > theirs


def test_a_store_that_is_none_is_refused(tmp_path: Path) -> None:
    """The error says what to give."""
    with pytest.raises(InvalidInputError, match=r"refold\.open"):
        RefoldSaver(tmp_path)  # type: ignore[arg-type]


def test_an_answer_has_the_tokens_of_its_model(memory: Store) -> None:
    """One that is a text, and one that calls tools."""
    usage: Any = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    about = {"model_name": "small"}
    call = {"name": "f", "args": {}, "id": "c"}
    answers = [
        AIMessage("fine", id="1", usage_metadata=usage, response_metadata=about),
        AIMessage("", id="2", usage_metadata=usage, response_metadata=about, tool_calls=[call]),
    ]
    saver = RefoldSaver(memory)
    for name in ("t", "another"):
        put(saver, thread(name), messages=answers)

    (row,) = [row for row in memory.usage(by=["model"]) if row.model]
    # They count in each thread.
    assert (row.model, row.counted_in, row.counted_out) == ("small", 28, 8)


def test_all_threads_are_listed(memory: Store) -> None:
    """Without a config; more of them than are kept open."""
    saver = RefoldSaver(memory)
    made = [put(saver, thread(name), n=name)["configurable"]["checkpoint_id"] for name in "abc"]

    assert sorted(one.checkpoint["id"] for one in saver.list(None)) == sorted(made)


def test_few_threads_are_kept_open(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were used last; the others are read again."""
    monkeypatch.setattr(saver_module, "THREADS_KEPT_MAX", 2)
    saver = RefoldSaver(memory)
    configs = [put(saver, thread(name), n=name) for name in "abcd"]

    assert [values(saver, config) for config in configs] == [{"n": name} for name in "abcd"]
    assert len(saver._threads) == 2


def test_a_chat_that_the_graph_did_not_load_is_not_begun(memory: Store) -> None:
    """A checkpoint of another thread says nothing of what others wrote there."""
    saver = RefoldSaver(memory)
    memory.chat("u").add_message("user", "mine")
    loaded = saver.get_tuple(put(saver, thread("t"), n=1))
    assert loaded is not None
    config = {"configurable": {**loaded.config["configurable"], "thread_id": "u"}}

    with pytest.raises(DecisionRefusedError, match="the chat 'u' has items that the graph did not load"):
        put(saver, config, n=2)
    assert memory.chat("u").version == 2
    assert values(saver, put(saver, thread("u"), n=3)) == {"n": 3}


def test_others_that_never_pause(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save is tried a few times, and then it is an error of the caller's."""
    saver = RefoldSaver(memory)
    config = put(saver, thread(), n=1)
    tries: list[None] = []

    def overtaken(*_: object, **__: object) -> None:
        tries.append(None)
        raise ConcurrencyError("chat:t", expected=1, actual=2)

    with monkeypatch.context() as patched:
        patched.setattr(Thread, "_put", overtaken)
        with pytest.raises(ConcurrencyError):
            put(saver, config, n=2)
    assert len(tries) == CATCH_UPS_MAX
    assert values(saver, thread()) == {"n": 1}


@pytest.mark.parametrize(
    "packed",
    [{}, {"type": "json"}, {"type": "json", "base64": "a"}, {"type": "json", "base64": 7},
     {"type": "pickle", "base64": "Ti4="}],
)  # fmt: skip
def test_what_is_no_saved_value_is_damage(packed: dict[str, Any]) -> None:
    """The error names what was to be loaded."""
    with pytest.raises(DamagedError, match="the channel 'n' is damaged: it is no saved value"):
        Values(JsonPlusSerializer(pickle_fallback=True)).unpack(packed, "the channel 'n'")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"messages": {"channel": "messages", "count": 9}}, "a checkpoint has 9 messages there, and it sh"),
        ({"lists": {"notes": {"view": "chat:t/.notes@2", "count": 9}}}, "a checkpoint has 9 messages there, and it sh"),
    ],
)
def test_a_checkpoint_whose_chats_show_something_else_is_damage(memory: Store, wrong: Any, says: str) -> None:
    """Such a state is not given to a graph."""
    messages = [HumanMessage("a", id="1")]
    config = put(RefoldSaver(memory), thread(), messages=messages, notes=messages)
    key = f"checkpoint/{config['configurable']['checkpoint_id']}"
    chat = memory.chat("t")
    saved = chat.saved_states.last("langgraph", key)
    assert saved is not None
    chat.saved_states.save("langgraph", {key: {**(saved.value or {}), **wrong}})

    with pytest.raises(DamagedError, match=says):
        RefoldSaver(memory).get_tuple(config)
