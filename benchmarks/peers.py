"""
Other packages that do something comparable, where they are installed beside Refold; none of them is a dependency.

The seed's published package is `videosdk-agents`. Each function returns None where its package is missing. Their types
are not useful here, so they are `Any`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .recorded import ROLES
from .workload import Item


def seed_context(items: Sequence[Item]) -> Callable[[], Any] | None:
    """Return a function that makes a context of the seed's package with these items."""
    llm = _module("videosdk.agents.llm")
    if llm is None:
        return None

    def make() -> Any:
        context = llm.ChatContext()
        for item in items:
            if item.kind == "call":
                context.add_function_call(item.name, item.text, item.call_id)
            elif item.kind == "output":
                context.add_function_output(item.name, item.text, item.call_id)
            else:
                context.add_message(llm.ChatRole(ROLES[item.kind]), item.text)
        return context

    return make


def langchain_messages(items: Sequence[Item]) -> list[Any] | None:
    """Return items as LangChain's messages, which LangGraph keeps."""
    messages = _module("langchain_core.messages")
    return None if messages is None else [_langchain_message(messages, n, item) for n, item in enumerate(items)]


def _langchain_message(messages: Any, number: int, item: Item) -> Any:
    match item.kind:
        case "user":
            return messages.HumanMessage(item.text, id=f"m{number}")
        case "call":
            call = {"name": item.name, "args": json.loads(item.text), "id": item.call_id}
            return messages.AIMessage("", tool_calls=[call], id=f"m{number}")
        case "output":
            return messages.ToolMessage(item.text, tool_call_id=item.call_id, name=item.name, id=f"m{number}")
        case _:
            return messages.AIMessage(item.text, id=f"m{number}")


def openai_from_langchain(messages: list[Any]) -> object:
    """Return LangChain's messages as those of OpenAI's chat completions, by its own converter."""
    return import_module("langchain_core.messages").convert_to_openai_messages(messages)


def _module(name: str) -> Any:
    root = name.partition(".")[0]
    if find_spec(root) is None:
        return None
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and name.startswith(missing.name):
            # Another package with the same root is installed, but not this one.
            return None
        raise
