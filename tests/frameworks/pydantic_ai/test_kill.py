"""A process is killed at any point of a save: the messages are there with their record and its usage, or not."""

import asyncio
from pathlib import Path

from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.messages import UserPromptPart as Prompt

import refold
from refold.pydantic_ai import RefoldConversations

from ..killed import Report, killed_at_each_moment, reported

TURNS = 3
# Behind the turns, the last answer is replaced by another one, which leaves a branch behind, and a fork is made.
STEPS = TURNS + 2
REWRITTEN = "It is in Paris."


def turn(number: int) -> list[ModelRequest | ModelResponse]:
    """Return a question, a call, its output and an answer."""
    return [
        ModelRequest([Prompt(f"Where is order {number}?")]),
        ModelResponse([ToolCallPart("track", f'{{"order": {number}}}', f"c{number}")]),
        ModelRequest([ToolReturnPart("track", "in Lyon", f"c{number}")]),
        ModelResponse([TextPart(f"Order {number} is in Lyon.")]),
    ]


def said(conversation: Conversation | None) -> list[str]:
    """Return the content of each message."""
    messages = [] if conversation is None else conversation.messages
    return [
        str(getattr(part, "content", None) or getattr(part, "args", None)) for one in messages for part in one.parts
    ]


async def steps_done(store: refold.Store) -> int:
    """Return how many steps a store has, and require that it has each of them as a whole."""
    conversations = RefoldConversations(store)
    loaded, fork = await conversations.load("c"), await conversations.load("fork")
    turns = [text for number in range(TURNS) for text in said(Conversation(messages=turn(number)))]
    rewritten = [*turns[:-1], REWRITTEN]
    shown, requests = said(loaded), 0 if loaded is None else loaded.usage.requests
    record = await conversations.read_record("c")
    if fork is not None:
        assert said(fork) == turns[:4]
        assert shown == rewritten
        return STEPS
    done = TURNS + 1 if shown == rewritten else len(shown) // 4
    assert shown in (turns[: 4 * done], rewritten)
    assert requests == done
    assert len(record.branches if record else []) == (1 if done > TURNS else 0)
    return done


async def work(place: Path, report: Report) -> None:
    """Go on with the step behind those that are there."""
    with refold.open(place) as store:
        conversations = RefoldConversations(store)
        for step in range(await steps_done(store), STEPS):
            conversation = await conversations.load("c") or Conversation(conversation_id="c")
            if step == TURNS + 1:
                await conversations.fork("c", at=4, new_conversation_id="fork")
            else:
                if step < TURNS:
                    conversation.messages.extend(turn(step))
                else:
                    messages = [*conversation.messages[:-1], ModelResponse([TextPart(REWRITTEN)])]
                    conversation = Conversation(
                        conversation_id="c", messages=messages, revision=conversation.revision, usage=conversation.usage
                    )
                conversation.usage.requests += 1
                await conversations.save(conversation)
            report(step)


async def checked(place: Path) -> None:
    """Require that what was reported is there, and at most one step more; then that the work goes on to its end."""
    done = len(reported(place))
    with refold.open(place) as store:
        assert await steps_done(store) in (done, done + 1)
        assert store.verify(processes=1).problems == ()
    await work(place, lambda _: None)
    with refold.open(place) as store:
        assert await steps_done(store) == STEPS
        for row in store.contexts():
            store.chat(row.id).to_openai_messages()


def test_a_killed_save_is_whole_or_not_there(tmp_path: Path) -> None:
    """Between any two steps of it; and a process that goes on does what is left, once."""
    places = killed_at_each_moment("tests.frameworks.pydantic_ai.test_kill", tmp_path)

    # Before and behind each save, and behind each report, at least.
    assert len(places) > 3 * STEPS
    assert reported(places[-1]) == list(range(STEPS))
    for place in places:
        asyncio.run(checked(place))
