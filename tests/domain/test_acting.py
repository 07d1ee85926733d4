"""Who acts and why: set around a piece of work, found in the envelope of every event within it."""

import asyncio
import threading
from typing import Any

import pytest

from refold import to_async
from refold.domain.chat.context import ChatContext
from refold.domain.log.envelope import Meta, acting, current_meta
from refold.domain.log.memory_log import MemoryLog

from .chat_events import OPENED
from .fakes import handle_on, record


def meta_of_next(chat: ChatContext) -> Meta:
    """Add a message and return its meta."""
    chat.add_message("user", "hi")
    return chat.history()[-1].meta


def kept() -> ChatContext:
    """Return a context whose agent is "triage"."""
    log = MemoryLog()
    record(log, OPENED)
    return handle_on(log)


def test_the_agent_acts_by_default() -> None:
    """Without `acting` the context's own agent did it."""
    assert meta_of_next(kept()) == Meta("triage")


def test_nobody_acts_in_a_detached_context() -> None:
    """It has no agent."""
    assert meta_of_next(ChatContext()) == Meta()


def test_who_and_why() -> None:
    """Actor, trace and cause are in the envelope, within the block alone."""
    chat = kept()
    with acting(actor="mia", correlation_id="t1", because="chat:b@3"):
        within = meta_of_next(chat)

    assert within == Meta("mia", "t1", "chat:b@3")
    assert meta_of_next(chat) == Meta("triage")


def test_an_event_can_be_the_cause() -> None:
    """A recorded event is named by stream and version."""
    chat = kept()
    cause = chat.history()[0]

    with acting(because=cause):
        assert meta_of_next(chat) == Meta("triage", None, "chat:a@1")


def test_blocks_within_blocks() -> None:
    """What an inner block leaves out it takes from the outer one, which is back after it."""
    with acting(actor="mia", correlation_id="t1"):
        with acting(actor="noah", because="chat:b@1"):
            inner = current_meta(default_actor="triage", idempotency_key="k")
        outer = current_meta(default_actor="triage", idempotency_key=None)

    assert inner == Meta("noah", "t1", "chat:b@1", "k")
    assert outer == Meta("mia", "t1")


def test_an_error_ends_the_block() -> None:
    """Whoever acted within it does not act behind it."""
    with pytest.raises(ZeroDivisionError), acting(actor="mia"):
        _ = 1 / 0

    assert current_meta(default_actor=None, idempotency_key=None) == Meta()


def test_a_key_alone() -> None:
    """An idempotency key needs no actor."""
    assert current_meta(default_actor=None, idempotency_key="k") == Meta(idempotency_key="k")


def test_tasks_act_for_themselves() -> None:
    """The actor goes along through `await` and into threads, and not from one task to another."""
    metas: dict[str, Meta] = {}

    async def work(name: str) -> None:
        chat: Any = to_async(kept())
        with acting(actor=name):
            await asyncio.sleep(0)
            await chat.add_message("user", "hi")
            await asyncio.sleep(0)
            metas[name] = (await chat.history())[-1].meta

    async def both() -> None:
        await asyncio.gather(work("mia"), work("noah"))

    asyncio.run(both())

    assert metas == {"mia": Meta("mia"), "noah": Meta("noah")}


def test_threads_act_for_themselves() -> None:
    """A thread that is started within the block is no part of it."""
    chat = kept()
    with acting(actor="mia"):
        thread = threading.Thread(target=chat.add_message, args=("user", "hi"))
        thread.start()
        thread.join()

    assert chat.history()[-1].meta == Meta("triage")
