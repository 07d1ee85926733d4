"""Items in words: who speaks, and what is said."""

from __future__ import annotations

from ...domain.chat.events import (
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    Image,
    MessageAdded,
)
from ...domain.content import Content, plain_content
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent, PoolAdded, PoolReplaced
from ...domain.window.events import WindowItemEvent
from ..queries.origins import Item, id_of
from .shapes import json_text

STYLES = {"user": "green", "assistant": "blue", "call": "yellow", "output": "cyan"}


def speaker_of(item: Item) -> str:
    """
    Return what stands in front of an item: who speaks in a chat, the id or key where items have one, else its sort.
    """
    named = isinstance(item, PoolAdded | PoolReplaced | WindowItemEvent | MemoryRemembered)
    return str(id_of(item)) if named else sort_of(item)


def sort_of(item: Item) -> str:
    """
    Return of what sort an item is: a role in a chat, or the kind of an item that has none; the source in a window, the
    kind in a memory; in a queue or a pool what it holds.
    """
    match item:
        case AddedEvent():
            return _sort_of_content(item.content)
        case WindowItemEvent():
            return item.source
        case MemoryRemembered():
            return item.kind
        case MessageAdded(role=role):
            return role
        case FunctionCalled():
            return "call"
        case FunctionReturned(is_error=is_error):
            return "error" if is_error else "output"
        case HandedOff():
            return "handoff"
        case ConfigUpdated():
            return "config"


def _sort_of_content(content: Content) -> str:
    if content.text is not None:
        return "text"
    return content.type.rpartition(":")[2] or "json"


def style_of(speaker: str) -> str:
    """Return the style of a speaker's name."""
    return "red" if speaker == "error" else STYLES.get(speaker, "dim")


def about(item: Item) -> str:
    """Return what is said about an item; empty where nothing is."""
    match item:
        case AddedEvent():
            return item.description or ""
        case WindowItemEvent():
            return f"from {item.source}" + (f", priority {item.priority}" if item.priority else "")
        case MemoryRemembered():
            return ", ".join([item.kind, *item.tags])
        case _:
            return ""


def body_of(item: Item) -> str:
    """Return what an item says, in full."""
    match item:
        case AddedEvent(content=content) | MemoryRemembered(value=content):
            return content.text if content.text is not None else json_text(plain_content(content))
        case WindowItemEvent(value=value):
            return value
        case MessageAdded(content=str(text)):
            return text
        case MessageAdded(content=parts):
            return "\n".join(part if isinstance(part, str) else _image(part) for part in parts)
        case FunctionCalled(name=name, arguments=arguments):
            return f"{name}({arguments})"
        case FunctionReturned(name=name, output=output):
            return f"{name or '(unknown function)'}: {output}"
        case HandedOff(from_agent=source, to_agent=target, reason=reason):
            return f"{source or '(nobody)'} -> {target}" + (f": {reason}" if reason else "")
        case ConfigUpdated(instructions=instructions, tools=tools):
            said = [] if instructions is None else [f"instructions: {instructions}"]
            return "\n".join([*said, *([] if tools is None else [f"tools: {', '.join(tools) or '(none)'}"])])


def _image(image: Image) -> str:
    # A data URL is a picture in letters: of no use to a reader.
    shown = image.image.partition(",")[0] + ",…" if image.image.startswith("data:") else image.image
    return f"[image {shown}]"


def said_by(item: Item) -> str:
    """Return what an item says; a message behind its role, since the type of the event says the rest."""
    prefix = f"{item.role}: " if isinstance(item, MessageAdded) else ""
    return prefix + body_of(item)
