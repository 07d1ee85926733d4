"""
Events and items in a few words: who speaks, and what is said.
"""

from __future__ import annotations

from typing import Any

from ...domain.chat.events import (
    ChatItemEvent,
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    Image,
    MessageAdded,
    Named,
    Opened,
)
from .shapes import json_text, plain_fields
from .terminal import one_line

__all__ = ["body_of", "counted", "speaker_of", "style_of", "summary_of", "type_of"]

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


def counted(count: int, noun: str) -> str:
    """
    Return a number of things, like "1 item" or "1,200 items".
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def type_of(event: Any) -> str:
    """
    Return the name of an event's type, without kind and version: the part that people say.
    """
    return str(event.__struct_config__.tag).split(".")[1]


def summary_of(event: Any) -> str:
    """
    Return an event on one line; one that is not known here by its fields.
    """
    match event:
        case MessageAdded() | FunctionCalled() | FunctionReturned() | HandedOff() | ConfigUpdated():
            prefix = f"{event.role}: " if isinstance(event, MessageAdded) else ""
            return one_line(prefix + body_of(event))
        case Named(name=name, version=version):
            return one_line(f"{name} = @{version}")
        case Opened(user=user, session=session, agent=agent, source=source):
            said = {"user": user, "session": session, "agent": agent, "source": source}
            return one_line(" ".join(f"{name}={value}" for name, value in said.items() if value))
        case _:
            return one_line(json_text(plain_fields(event)))
