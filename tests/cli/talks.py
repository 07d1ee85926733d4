"""Contexts that the tests of changing commands begin with."""

import asyncio
from pathlib import Path

import refold as package
from refold.domain.chat.items import ChatMessage
from refold.domain.chat.roles import ChatRole
from tests.domain.llm.models import ScriptedLLM


def talk(path: Path) -> Path:
    """
    Return a database with the context `support`, at version 7: instructions, a question, a call, its output, an
    answer, a question.
    """
    with package.open(path, synchronous="NORMAL") as store:
        chat = store.chat("support", user="mia", agent="triage")
        chat.add_message("system", "Be brief.", message_id="rules")
        chat.add_message("user", "Where is order 7?", message_id="first")
        chat.add_function_call("lookup", '{"order": 7}', call_id="c1")
        chat.add_function_output("lookup", "in transit", call_id="c1")
        chat.add_message("assistant", "It is on its way.", message_id="answer")
        chat.add_message("user", "And order 8?", message_id="second")
    return path


def edit(path: Path) -> Path:
    """Return the database after every kind of edit: `support` at version 21, its fork `branch` at version 3."""
    with package.open(path, synchronous="NORMAL") as store:
        chat = store.chat("support")
        branch = chat.fork("branch")
        branch.add_message("assistant", "It is lost.", message_id="lost")
        branch.add_config_update("Be quick.")
        chat.insert(ChatMessage(id="late", created_at=1.0, role=ChatRole.USER, content=["Hello."]))
        chat.add_message("system", "Be kind.", message_id="rules2", replace=True)
        chat.pin("first", reason="the question")
        chat.unpin("first")
        chat.evict("answer", reason="wrong")
        chat.restore(reason="right after all")
        chat.truncate(max_items=5)
        chat.restore()
        asyncio.run(chat.summarize(ScriptedLLM(["They spoke of order 7."]), keep_recent_turns=1))
        chat.undo_summary()
        asyncio.run(chat.merge(branch, instructions=True))
        chat.clear(reason="over")
        chat.restore(["first"])
    return path


def said(path: Path, context: str) -> list[str]:
    """Return what the messages of a context say."""
    with package.open(path, create=False) as store:
        return [str(message.content[0]) for message in store.chat(context, create=False).messages()]


def versions(path: Path) -> dict[str, int]:
    """Return the contexts of a database and the versions that they are at."""
    with package.open(path, create=False) as store:
        return {row.id: row.version for row in store.contexts()}
