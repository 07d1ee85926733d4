"""The tools that change chats, asked by the package's own client, on each kind of store."""

import asyncio
from typing import Any

import pytest
from mcp import Client

import refold

from .test_tools import answer, asking, fault, support


async def test_a_message_that_is_refused_makes_no_chat(store: refold.Store) -> None:
    """All messages or none, and without a message no chat that was to be made for them."""
    good, bad = {"role": "user", "content": "hello"}, {"role": "robot", "content": "hello"}
    async with asking(store) as client:
        text = await fault(client, "context_append", context="new", messages=[good, bad], create=True)
        assert "'robot' is no role" in text
        assert store.contexts() == []

        made = await answer(client, "context_append", context="new", messages=[good], create=True)
        assert len(store.chat("new").items) == len(made["item_ids"]) == 1


async def test_a_chat_is_made_with_its_messages_or_not_at_all(store: refold.Store) -> None:
    """A chat that is not there is at version 0; what is refused makes none, and a repetition is recognised."""
    said = {"context": "new", "messages": [{"role": "user", "content": "hello"}], "create": True}
    async with asking(store) as client:
        assert "has no version 3 yet" in await fault(client, "context_append", **said, expected_version=3)
        assert store.log.streams() == []
        made = await answer(client, "context_append", **said, expected_version=0, idempotency_key="k")
        assert await answer(client, "context_append", **said, idempotency_key="k") == made
        assert "is at version 2" in await fault(client, "context_append", **said, expected_version=0)
        other = {**said, "messages": [{"role": "user", "content": "bye"}], "idempotency_key": "k"}
        assert "'k'" in await fault(client, "context_append", **other)

        calls = [{**said, "context": "raced", "expected_version": 0}] * 8 + [{**said, "context": "raced"}] * 2
        results = await asyncio.gather(*(client.call_tool("context_append", call) for call in calls))
    refused = [result for result in results if result.is_error]
    assert all(result.structured_content["error"] == "ConcurrencyError" for result in refused)
    assert len(store.chat("raced").items) == len(calls) - len(refused) in (2, 3)
    assert {event.version for event in store.chat("raced").history()} == set(range(1, len(calls) - len(refused) + 2))


@pytest.mark.parametrize("how", ["full", "result"])
async def test_a_merge_that_is_repeated_has_the_first_answer(store: refold.Store, how: str) -> None:
    """An agent that did not get it calls again, with the same key: it learns what was taken, whatever came since."""
    draft = support(store).fork("draft")
    draft.add_message("assistant", "And order 8 is in Metz.")
    async with asking(store) as client:
        wanted = {"source": "draft", "into": "support", "how": how, "idempotency_key": "k"}
        first = await answer(client, "context_merge", **wanted)
        assert first["items"] == 1
        draft.add_message("assistant", "And order 9.")
        assert await answer(client, "context_merge", **wanted) == first


@pytest.mark.parametrize("how", [{}, {"turns": 1}, {"brief": "Be short."}])
async def test_a_fork_that_is_repeated_has_the_first_answer(store: refold.Store, how: dict[str, Any]) -> None:
    """Although others went on in the chat that it begins as; it stays the fork of the version of then."""
    chat = support(store)
    async with asking(store) as client:
        wanted = {"context": "support", "new": "side", "idempotency_key": "k", **how}
        first = await answer(client, "context_fork", **wanted)
        chat.add_message("user", "And order 8?")
        assert await answer(client, "context_fork", **wanted) == first


async def test_a_result_is_merged_alone(store: refold.Store) -> None:
    """The last answer of a fork comes back, with where it comes from, and nothing else of it."""
    support(store)
    async with asking(store) as client:
        await answer(client, "context_fork", context="support", new="side")
        said = [{"role": "user", "content": "And 8?"}, {"role": "assistant", "content": "8 is lost."}]
        await answer(client, "context_append", context="side", messages=said)
        before = len(store.chat("support").items)
        await answer(client, "context_merge", source="side", into="support", how="result")

    items = store.chat("support").items
    assert len(items) == before + 1
    assert "8 is lost." in str(items[-1])
    assert "And 8?" not in str(items)


async def test_two_clients_write_at_once(store: refold.Store) -> None:
    """Each append is there once, in one order; of two that were decided on the same version one is refused and told."""
    store.chat("shared").add_message("user", "begin")
    async with asking(store) as one, asking(store) as two:

        async def write(client: Client, name: str, number: int) -> None:
            said = [{"role": "user", "content": f"{name} {number}"}]
            await answer(client, "context_append", context="shared", messages=said, idempotency_key=f"{name}{number}")
            await answer(client, "context_append", context="shared", messages=said, idempotency_key=f"{name}{number}")

        await asyncio.gather(*(write(client, name, n) for n in range(12) for client, name in ((one, "a"), (two, "b"))))
        version = store.chat("shared").version
        said = [{"role": "user", "content": "decided"}]
        results = await asyncio.gather(
            *(
                client.call_tool("context_append", {"context": "shared", "messages": said, "expected_version": version})
                for client in (one, two)
            )
        )

    texts = [message.text for message in store.chat("shared").messages()]
    assert sorted(texts) == sorted(["begin", "decided", *(f"{name} {n}" for name in "ab" for n in range(12))])
    assert sorted(result.is_error for result in results) == [False, True]
    refused = next(result for result in results if result.is_error)
    assert refused.structured_content["error"] == "ConcurrencyError"
