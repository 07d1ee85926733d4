"""What a REPL shows: reprs, lengths, iteration, and first arguments that are the same for all kinds."""

import re
from pathlib import Path

import pytest

import refold
from refold.domain.chat.items import InvalidItemError
from refold.domain.errors import InvalidInputError

from ..support.project import ROOT


def test_reprs_of_stored_contexts(tmp_path: Path) -> None:
    """Id and version, and how much there is in it; a detached queue, pool or window looks as in the seed."""
    with refold.open(tmp_path / "a.db") as store:
        chat = store.chat("talk")
        chat.add_message("user", "hi")
        shown = [
            store,
            chat,
            chat.at(1),
            chat.readonly,
            store.queue("notes"),
            store.pool("docs").readonly,
            store.window("prompt"),
            store.run("mia", "s"),
            store.memory().scope("mia"),
        ]

        assert [repr(one) for one in shown] == [
            f"Store('{tmp_path / 'a.db'}')",
            "ChatContext('talk', version=2, items=1)",
            "ReadOnlyChatContext('talk', version=1, items=0)",
            "ReadOnlyChatContext('talk', version=2, items=1)",
            "ContextQueue('notes', version=1, limit=10, len=0)",
            "ReadOnlyPool('docs', version=1, limit=None, len=0)",
            "ContextWindow('prompt', version=1, max_tokens=100000, items=[])",
            "Run('mia', 's', 0, 0, version=1)",
            "MemoryScope('mia', version=0)",
        ]
    assert repr(refold.ContextPool()) == "ContextPool(limit=None, len=0)"
    assert repr(refold.BudgetWindow(5)) == "ContextWindow(max_tokens=5, items=[])"


def test_reprs_of_what_a_store_and_a_chat_give(tmp_path: Path) -> None:
    """The class, and the moment, message or context by which one is told from another; never a key."""
    with refold.open(tmp_path / "a.db") as store:
        chat = store.chat("talk")
        now = store.now()
        with chat.stream("assistant") as out:
            out.write("Hello.")
            shown = [
                store.memory(),
                store.memory().at(now),
                store.what_if(now),
                store.subscribe(after=now),
                store.subscribe(name="mailer"),
                chat.approvals,
                out,
            ]

            assert [repr(one) for one in shown] == [
                "Memory()",
                "MemoryAt(1)",
                "WhatIf(1)",
                "Subscription(1)",
                "Subscription(0, name='mailer')",
                "Approvals(ChatContext('talk', version=2, items=1))",
                f"MessageStream({out.message_id!r}, length=6, is_open=True)",
            ]
    memory = refold.SqliteMemoryStore(path=":memory:")
    assert repr(memory) == "SqliteMemoryStore(Store(':memory:'))"
    memory.close()
    hide = refold.Redactor()
    hide("Ask mia@example.org.")
    assert [repr(one) for one in (hide, refold.KeyFile("keys.json"), refold.KeyEnvironment("KEYS"))] == [
        f"Redactor(counts={hide.counts})",
        "KeyFile('keys.json')",
        "KeyEnvironment('KEYS')",
    ]


def test_what_a_queue_and_a_pool_offer() -> None:
    """Their documented names alone, so that a completion is of use."""
    documented = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    queues, contexts = (
        documented.split(f"\n## {title}\n")[1].split("\n## ")[0] for title in ("Queues and pools", "ChatContext")
    )

    queue: refold.ContextQueue[str] = refold.ContextQueue(1)
    pool: refold.ContextPool[str] = refold.ContextPool()
    for shown in (queue, pool, queue.readonly):
        names = [name for name in dir(shown) if not name.startswith("_")]
        assert {"at", "clear", "hooks", "merge", "version"} <= set(names)
        assert [name for name in names if not re.search(rf"\b{name}\b", queues + contexts)] == []
        assert not {"change", "fire", "kind", "log"} & set(names)


def test_a_misspelt_name() -> None:
    """Python has what it needs to suggest the right one."""
    with pytest.raises(AttributeError, match="has no attribute 'ChatContxt'") as caught:
        _ = refold.ChatContxt  # type: ignore[attr-defined]

    assert (caught.value.name, caught.value.obj) == ("ChatContxt", refold)


def test_a_change_in_place_is_refused_in_plain_words() -> None:
    """It is a list or a dict, whatever its class is called."""
    chat = refold.ChatContext()
    call = chat.add_function_call("f", "{}", metadata={"a": [1]})

    for wrong, named in ((chat.items.clear, "list"), ((call.metadata or {}).clear, "dict")):
        with pytest.raises(refold.RefoldError, match=f"^this {named} is a view and cannot be changed in place"):
            wrong()


def test_a_repr_raises_nothing(tmp_path: Path) -> None:
    """Not even after its store was closed, when its items cannot be counted."""
    with refold.open(tmp_path / "a.db") as store:
        store.chat("talk").add_message("user", "hi")
    with refold.open(tmp_path / "a.db") as store:
        chat = store.chat("talk")

    assert repr(chat) == "ChatContext('talk', version=2)"


def test_length_and_iteration() -> None:
    """Those of the items; a context without items is a context all the same."""
    chat = refold.ChatContext()
    assert (len(chat), list(chat), bool(chat)) == (0, [], True)

    hello = chat.add_message("user", "hi")
    chat.add_message("assistant", "Hello.")

    assert (len(chat), len(chat.at(2)), list(chat)) == (2, 1, list(chat.items))
    assert hello in chat


def test_the_text_of_a_message() -> None:
    """Whatever its form; images have none."""
    chat = refold.ChatContext()
    image = refold.ImageContent(image="https://example.org/a.png")

    assert chat.add_message("user", "hi").text == "hi"
    assert chat.add_message("user", ["one", image, "two"]).text == "one\ntwo"
    assert chat.add_items([refold.ChatMessage(role=refold.ChatRole.USER, content="hi")])[0].text == "hi"
    assert "text" not in chat.messages()[0].model_dump()


def test_an_effect_of_an_eviction() -> None:
    """What left, and how much."""
    chat = refold.ChatContext()
    chat.add_message("user", "x" * 40, "m")

    assert repr(chat.evict("m")) == "Eviction(version=3, item_ids=['m'], tokens_removed=14)"


def test_the_result_of_a_replay() -> None:
    """How many calls, and the sums before and after."""
    chat = refold.ChatContext()
    for number in range(2):
        chat.add_message("user", "x" * 400, f"u{number}")
        chat.add_message("assistant", "x" * 400, f"a{number}")

    assert repr(chat.replay("items:1")) == "Replay(2 calls, tokens 416 -> 208, cached 104 -> 0)"


def test_the_id_comes_first() -> None:
    """`fork`, `copy` and `branch` take it so; a limit may stand there too, as in the seed."""
    with refold.open(":memory:") as store:
        chat, queue, pool = store.chat("a"), store.queue("a"), store.pool("a", limit=9)

        assert [chat.fork("b").id, chat.copy("c").id, queue.branch("b").id, pool.branch("b").id] == ["b", "c", "b", "b"]
        assert [queue.branch("d", limit=2).limit, queue.branch(3).limit, queue.branch(limit=4).limit] == [2, 3, 4]
        assert [pool.branch(context_id="e", limit=2).limit, pool.branch("f").limit, pool.branch(None).limit] == [
            2,
            9,
            None,
        ]
        with pytest.raises(InvalidInputError, match="has another id as a keyword"):
            queue.branch("g", context_id="h")
        with pytest.raises(InvalidInputError, match="has another limit as a keyword"):
            pool.branch(3, limit=4)


def test_the_repr_of_an_invalid_item() -> None:
    """The class of the error, and its one line."""
    with pytest.raises(InvalidItemError) as caught:
        refold.ChatContext().add_message("nobody", "hi")

    assert repr(caught.value) == f"InvalidItemError({str(caught.value)!r})"
