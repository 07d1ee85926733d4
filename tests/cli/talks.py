"""Contexts that the tests of changing commands begin with."""

from pathlib import Path

import refold as package


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


def said(path: Path, context: str) -> list[str]:
    """
    Return what the messages of a context say.
    """
    with package.open(path, create=False) as store:
        return [str(message.content[0]) for message in store.chat(context, create=False).messages()]


def versions(path: Path) -> dict[str, int]:
    """
    Return the contexts of a database and the versions that they are at.
    """
    with package.open(path, create=False) as store:
        return {row.id: row.version for row in store.contexts()}
