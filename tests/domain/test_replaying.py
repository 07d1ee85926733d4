"""A context's history under another policy: what the model would have seen, and what that would have cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import PIECES, ChatItemEvent, MessageAdded
from refold.domain.chat.replay import _whole, policy_of
from refold.domain.chat.tokens import estimate_tokens
from refold.domain.errors import InvalidInputError, NotFoundError
from tests.contract.chat_checking import Teller, message
from tests.domain.chat_events import called, configured, handed, returned, said
from tests.domain.strategies import PROPERTY

# What happens in a turn: a letter for each item. An upper-case one is the model's.
TURN = st.text("uACohcs", min_size=1, max_size=6)
TALK = st.lists(TURN, max_size=8)


def items_of(turns: list[str]) -> list[ChatItemEvent]:
    """Return the items of some turns; an output answers the call before it."""
    made: list[Any] = []
    last_call = "f0"
    for number, letter in enumerate("".join(turns)):
        item_id, text = f"{letter}{number}", "x" * (number * 7 % 40)
        match letter:
            case "u" | "A" | "s":
                role = {"u": "user", "A": "assistant", "s": "system"}[letter]
                made.append(said(item_id, text, role=role))
            case "C":
                last_call = item_id
                made.append(called(item_id, arguments=text))
            case "o":
                made.append(returned(item_id, text, call_id=last_call))
            case "h":
                made.append(handed(item_id))
            case _:
                made.append(configured(item_id, instructions=text))
    return made


def talk(*turns: str) -> ChatContext:
    """Return a context in which this was said, item by item."""
    chat = ChatContext()
    for item in items_of(list(turns)):
        chat.record_items([item])
    return chat


def seen(replay: Any, version: int, *, then: bool = False) -> str:
    """Return the ids of what the model sees before its call."""
    return " ".join(item.id for item in replay.seen(version, then=then))


def calls_of(items: list[ChatItemEvent]) -> list[int]:
    """Return where the model was asked: at each item of its own that does not follow another one."""
    is_model = [item.id[0] in "AC" for item in items]
    return [place for place, mine in enumerate(is_model) if mine and not (place and is_model[place - 1])]


@PROPERTY
@given(TALK)
def test_all_is_as_it_was(turns: list[str]) -> None:
    """Where nothing was edited, and everything stays, both prompts are the same, with the same tokens and cache."""
    items = items_of(turns)
    replay = talk(*turns).replay("all")

    assert [call.version - 2 for call in replay.calls] == calls_of(items)
    for call in replay.calls:
        before = items[: call.version - 2]
        assert call.tokens_now == call.tokens_then == sum(map(estimate_tokens, before))
        assert call.cached_now == call.cached_then
        assert seen(replay, call.version) == seen(replay, call.version, then=True) == " ".join(i.id for i in before)
    # Each prompt begins with the whole one before it.
    assert [call.cached_now for call in replay.calls] == [0, *(call.tokens_now for call in replay.calls)][
        : len(replay.calls)
    ]


@PROPERTY
@given(TALK, st.integers(5, 60), st.sampled_from(["tokens", "items"]))
def test_truncated_before_each_call(turns: list[str], limit: int, unit: str) -> None:
    """What is seen is what a context shows that is truncated before each call: within the limit, or protected."""
    items = items_of(turns)
    replay, live, start = talk(*turns).replay(f"{unit}:{limit}"), ChatContext(), 0

    for call, place in zip(replay.calls, calls_of(items), strict=True):
        live.record_items(items[start:place])
        live.truncate(max_items=limit) if unit == "items" else live.truncate(max_tokens=limit)
        start = place
        assert seen(replay, call.version) == " ".join(item.id for item in live.items)
        assert call.tokens_now == live.estimated_tokens()
        size = call.tokens_now if unit == "tokens" else len(live.items)
        assert size <= limit or len(live.copy().truncate(max_items=0).items) == len(live.items)
        assert call.tokens_now <= call.tokens_then
    assert replay.tokens_now == sum(call.tokens_now for call in replay.calls)
    assert replay.cached_now == sum(call.cached_now for call in replay.calls)


def test_the_cache_by_hand() -> None:
    """
    Four tokens an item and one for every four characters. Under items:2 the first turn leaves before the second call:
    its prompt begins with what was third, so that nothing of it was cached.
    """
    chat = ChatContext()
    chat.record_items([said("u1", "x" * 8), said("a1", "x" * 4, role="assistant")])
    chat.record_items([said("u2", "x" * 16), said("a2", "x" * 4, role="assistant"), said("u3", "")])
    chat.record_items([said("a3", "", role="assistant")])

    replay = chat.replay("items:2")

    assert [(call.version, call.tokens_then, call.tokens_now) for call in replay.calls] == [
        (3, 6, 6),
        (5, 6 + 5 + 8, 8),
        (7, 6 + 5 + 8 + 5 + 4, 4),
    ]
    assert [(call.cached_then, call.cached_now) for call in replay.calls] == [(0, 0), (6, 0), (19, 0)]
    assert (replay.tokens_then, replay.tokens_now, replay.cached_then, replay.cached_now) == (53, 18, 25, 0)
    assert [seen(replay, version) for version in (3, 5, 7)] == ["u1", "u2", "u3"]


def test_a_cache_that_ends_in_the_middle() -> None:
    """Only the beginning that both have counts, however much comes behind it."""
    chat = talk("su", "A", "u", "A")

    replay = chat.replay(lambda context: context.evict("u1") if context.get_by_id("A2") else None)

    assert [seen(replay, call.version) for call in replay.calls] == ["s0 u1", "s0 A2 u3"]
    system = estimate_tokens(items_of(["su"])[0])
    assert replay.calls[1].cached_now == system
    assert replay.calls[1].cached_then == replay.calls[0].tokens_then


def test_what_was_edited_then_is_seen_then() -> None:
    """The original prompts are those that there were: truncated, evicted, inserted into; the replay has its own."""
    chat = talk("su", "A", "u")
    chat.evict("u1", reason="not needed")
    chat.record_items([said("A9", "x", role="assistant")])
    chat.restore()
    chat.insert(message("early", time=1.0))
    chat.record_items([said("u9"), said("A10", "x", role="assistant")])

    replay = chat.replay("all")

    assert [seen(replay, call.version, then=True) for call in replay.calls] == [
        "s0 u1", "s0 A2 u3", "early s0 u1 A2 u3 A9 u9",
    ]  # fmt: skip
    assert [seen(replay, call.version) for call in replay.calls] == [
        "s0 u1", "s0 u1 A2 u3", "s0 u1 A2 u3 A9 early u9",
    ]  # fmt: skip


async def test_summaries_of_then_are_left_out() -> None:
    """What a model wrote about items is no item of the history; under a policy it may be written again."""
    chat = talk("su", "A", "u", "A", "u", "A", "u")
    await chat.summarize(Teller("What was told."), keep_recent_turns=1)
    chat.record_items([said("A90", "x", role="assistant")])
    teller = Teller("First.", "Second.", "Third.", "Fourth.")

    replay = await chat.areplay(lambda context: context.summarize(teller, keep_recent_turns=1))

    last = replay.calls[-1].version
    assert [len(prompts) for prompts in (replay.seen(last), replay.seen(last, then=True))] == [3, 3]
    assert "What was told." in str(replay.seen(last, then=True))
    assert "What was told." not in str(replay.seen(last))
    assert len(teller.answers) < 4
    whole = chat.replay("all")
    assert seen(whole, last) == "s0 u1 A2 u3 A4 u5 A6 u7"


async def test_a_policy_that_need_not_be_awaited() -> None:
    """`areplay` takes it too, and says the same."""
    chat = talk("su", "A", "u", "A", "u", "A")

    assert (await chat.areplay("items:2")).calls == chat.replay("items:2").calls


def test_a_changed_call_is_seen_as_it_was_sent() -> None:
    """The model was asked only after the change; a rejected call is seen with its output."""
    chat = talk("uCC")
    chat.approvals.request("C1")
    chat.approvals.change("C1", {"sum": 7}, by="mia")
    chat.approvals.reject("C2", by="mia")
    chat.answer_call("C1", "paid")
    chat.add_message("assistant", "done")

    replay = chat.replay("all")

    assert [(call.tokens_now, call.cached_now) for call in replay.calls] == [
        (call.tokens_then, call.cached_then) for call in replay.calls
    ]
    last = replay.calls[-1].version
    assert replay.seen(last) == replay.seen(last, then=True) == chat.items[:-1]


def test_a_policy_that_is_to_be_awaited() -> None:
    """`replay` says where it belongs, at its first call, and leaves nothing behind that was never awaited."""
    chat, asked = talk("u", "A", "u", "A"), list[int]()

    async def policy(context: ChatContext) -> None:
        asked.append(context.version)

    with pytest.raises(InvalidInputError, match="areplay"):
        chat.replay(policy)
    with pytest.raises(InvalidInputError, match="areplay"):
        chat.replay(lambda context: context.summarize(Teller("never")))
    assert asked == []


@pytest.mark.parametrize(
    "policy",
    ["", "none", "tokens", "tokens:", "tokens:0", "tokens:-5", "items:1.5", "items: 5", "ALL", "items:" + "9" * 5_000],
)
def test_what_is_no_policy(policy: str) -> None:
    """The message says what there is."""
    with pytest.raises(InvalidInputError, match="tokens:8000"):
        talk("u", "A").replay(policy)


def test_a_policy_that_fails() -> None:
    """Its error comes out, and the context is as it was."""
    chat = talk("u", "A", "u", "A")
    before = chat.version

    with pytest.raises(NotFoundError):
        chat.replay(lambda context: context.evict("nothing of this name"))
    assert (chat.version, len(chat.items)) == (before, 4)


def test_nothing_is_recorded() -> None:
    """Neither in the context, nor in its log; what a policy is given is a context of its own."""
    chat = talk("su", "A", "u", "A")
    fork = chat.fork()
    before = chat.version, chat.to_dict(), len(chat.history())
    given: list[ChatContext] = []

    def policy(context: ChatContext) -> None:
        given.append(context)
        context.clear()

    chat.replay(policy)
    fork.replay("items:1")

    assert (chat.version, chat.to_dict(), len(chat.history())) == before
    assert fork.version == 1
    assert {context.is_detached for context in given} == {True}
    assert chat not in given


def test_forks() -> None:
    """The calls of the parent are its own; what it carried into the fork is what the first prompt begins with."""
    parent = talk("su", "A", "u", "CoA", "u")
    fork = parent.fork()
    fork.record_items([said("A90", "x", role="assistant"), said("u91"), said("A92", "y", role="assistant")])
    brief = fork.fork_filtered(1)
    brief.record_items([said("u93"), said("A93", "x", role="assistant")])
    deep = brief.fork().fork()
    deep.record_items([said("u94"), said("A95", "x", role="assistant")])

    assert [call.version for call in fork.replay("all").calls] == [2, 4]
    assert seen(fork.replay("all"), 4) == "s0 u1 A2 u3 C4 o5 A6 u7 A90 u91"
    assert [seen(brief.replay("all"), call.version) for call in brief.replay("all").calls] == ["s0 u91 A92 u93"]
    assert seen(deep.replay("all"), 3) == seen(deep.replay("all"), 3, then=True)
    assert deep.replay("all").calls[0].cached_then == 0


async def test_merges() -> None:
    """What came from another context came at its merge; calls that the other one made are not this one's."""
    parent = talk("su", "A", "u")
    fork = parent.fork()
    fork.record_items([called("C90"), returned("o91", call_id="C90"), said("A92", "x", role="assistant")])
    await parent.merge(fork)
    parent.record_items([said("u93"), said("A94", "x", role="assistant")])

    replay = parent.replay("all")

    last = replay.calls[-1].version
    assert seen(replay, last) == seen(replay, last, then=True) == "s0 u1 A2 u3 C90 o91 A92 u93"
    assert len({call.version for call in replay.calls}) == len(replay.calls)


def test_a_replay_of_nothing() -> None:
    """No call, no tokens; and a version that is no call's is refused with those that are."""
    empty, some = ChatContext().replay("tokens:5"), talk("u", "A", "u").replay("all")

    assert (empty.calls, empty.tokens_then, empty.tokens_now, empty.cached_then, empty.cached_now) == ([], 0, 0, 0, 0)
    with pytest.raises(InvalidInputError, match="the first ones have none"):
        empty.seen(1)
    with pytest.raises(InvalidInputError, match="the first ones have 3"):
        some.seen(2)


def test_items_recorded_together() -> None:
    """Imported at once or one by one, the calls are the same."""
    items = items_of(["su", "CoA", "u", "AC", "o"])
    at_once = ChatContext()
    at_once.record_items(items)

    assert at_once.replay("items:3").calls == talk("su", "CoA", "u", "AC", "o").replay("items:3").calls


def test_events_that_bring_nothing() -> None:
    """A name, or a pin of then, is no item: the policy does as it likes with what was pinned."""
    chat = talk("u", "A")
    chat.name_version("here")
    chat.pin("u0")
    chat.record_items([said("u9"), said("A9", "x", role="assistant")])

    assert [call.version for call in chat.replay("all").calls] == [3, 7]
    assert seen(chat.replay("items:1"), 7) == "u9"


def test_a_message_of_pieces_says_where_it_ends() -> None:
    """At the version of its last piece, as in the context itself; in a fork versions begin again."""
    chat = ChatContext()
    chat.add_message("user", "Hello.")
    with chat.stream() as out:
        for piece in ("It ", "is ", "on."):
            out.write(piece)
            out.flush()
    chat.add_message("user", "Thanks.")
    events = [one.event for one in chat.history()]

    [whole] = [one for one in _whole(events) if isinstance(one, MessageAdded) and one.until]
    assert whole.until == 1 + max(place for place, one in enumerate(events) if isinstance(one, PIECES))


@pytest.mark.parametrize("policy", [policy_of("items:2"), policy_of("tokens:5")])
def test_a_policy_within_a_policy(policy: Any) -> None:
    """A named one may be called by another function, and keeps what it keeps by itself."""
    chat = talk("u", "A", "u", "A", "u", "A")

    assert chat.replay(lambda scratch: policy(scratch)).calls == chat.replay(policy).calls
    assert chat.replay(policy).calls != chat.replay("all").calls
