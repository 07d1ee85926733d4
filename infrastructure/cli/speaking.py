"""
Items in words: who speaks, and what is said.
"""

from __future__ import annotations

from ...domain.chat.events import (
    ChatItemEvent,
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    Image,
    MessageAdded,
)

__all__ = ["body_of", "said_by", "speaker_of", "style_of"]

STYLES = {"user": "green", "assistant": "blue", "call": "yellow", "output": "cyan"}


def speaker_of(item: ChatItemEvent) -> str:
    """
    Return who speaks: a role, or the kind of an item that has none.
    """
    match item:
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


def style_of(speaker: str) -> str:
    """
    Return the style of a speaker's name.
    """
    return "red" if speaker == "error" else STYLES.get(speaker, "dim")


def body_of(item: ChatItemEvent) -> str:
    """
    Return what an item says, in full.
    """
    match item:
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


def said_by(item: ChatItemEvent) -> str:
    """
    Return what an item says; a message behind its role, since the type of the event says the rest.
    """
    prefix = f"{item.role}: " if isinstance(item, MessageAdded) else ""
    return prefix + body_of(item)
