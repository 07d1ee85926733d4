"""Events of a chat context as tests need them: short to write, all else at its default."""

from typing import Any

from refold.domain.chat.events import (
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    MessageAdded,
    Named,
    Opened,
)

STREAM = "chat:a"
OPENED = Opened(user="mia", agent="triage")


def said(item_id: str = "m1", text: Any = "hello", *, role: str = "user", **fields: Any) -> MessageAdded:
    """Return a message."""
    return MessageAdded(id=item_id, created_at=fields.pop("created_at", 1.5), role=role, content=text, **fields)


def called(item_id: str = "f1", name: str = "lookup", arguments: str = "{}") -> FunctionCalled:
    """Return a function call; its call id is its item id."""
    return FunctionCalled(id=item_id, created_at=1.5, name=name, arguments=arguments, call_id=item_id)


def returned(item_id: str = "o1", output: str = "found", *, call_id: str = "f1") -> FunctionReturned:
    """Return the output of a function."""
    return FunctionReturned(id=item_id, created_at=1.5, name="lookup", output=output, call_id=call_id)


def handed(item_id: str = "h1", to_agent: str = "billing") -> HandedOff:
    """Return a handoff."""
    return HandedOff(id=item_id, created_at=1.5, to_agent=to_agent)


def configured(item_id: str = "c1", **fields: Any) -> ConfigUpdated:
    """Return a config update."""
    return ConfigUpdated(id=item_id, created_at=1.5, **fields)


def named(name: str, version: int) -> Named:
    """Return the naming of a version."""
    return Named(name=name, version=version)
