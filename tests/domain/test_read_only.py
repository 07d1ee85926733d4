"""A view of the past can be read and nothing else (SPEC V12)."""

import asyncio
from typing import Any

import pytest

from refold.chat import to_anthropic_messages, to_google_contents, to_openai_messages
from refold.domain.chat.context import ChatContext, ReadOnlyChatContext
from refold.domain.errors import DecisionRefusedError

from .fakes import texts

CHANGES: dict[str, tuple[Any, ...]] = {
    "add_message": ("user", "hi"),
    "add_function_call": ("f", "{}"),
    "add_function_output": ("f", "1", "c"),
    "add_handoff": ("b",),
    "add_config_update": ("x",),
    "add_items": ([],),
    "add_messages": ([{"role": "user", "content": "hi"}],),
    "record_items": ([],),
    "name_version": ("start",),
}


def past() -> ReadOnlyChatContext:
    """Return a view of a context with one message."""
    chat = ChatContext()
    chat.add_message("user", "hi")
    return chat.at(chat.version)


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_refused(name: str) -> None:
    """V12.3: a RuntimeError that says what to do instead, and one of ours; nothing is changed."""
    view = past()

    with pytest.raises(RuntimeError, match=r"This ChatContext is read-only\. To modify it, create a mutable copy"):
        getattr(view, name)(*CHANGES[name])
    with pytest.raises(DecisionRefusedError):
        getattr(view, name)(*CHANGES[name])
    assert texts(view) == ["hi"]


def test_no_change_is_forgotten() -> None:
    """Whatever adds to a context is refused by a view of its past, or does not exist there."""
    adding = {name for name in dir(ChatContext) if name.startswith("add_")}

    assert {name for name in adding if hasattr(ReadOnlyChatContext, name)} <= set(CHANGES)


def test_a_view_does_not_grow() -> None:
    """V12.2, repaired: it is a view of one version, not of a list that may be replaced."""
    chat = ChatContext()
    chat.add_message("user", "hi")
    view = chat.at(chat.version)

    chat.add_message("user", "there")

    assert (texts(view), view.version, view.turn_count()) == (["hi"], 2, 1)


def test_items_cannot_be_written_through() -> None:
    """V12.5, repaired: neither the list nor an item of it."""
    view = past()

    with pytest.raises(DecisionRefusedError):
        view.items.clear()
    with pytest.raises(ValueError, match="frozen"):
        view.items[0].id = "other"


def test_a_view_reads_as_a_context_does() -> None:
    """All that can be read of a context can be read of its past."""
    chat = ChatContext()
    chat.add_config_update("Be brief.", ["t"])
    chat.add_message("user", "hi", message_id="m1")
    view = chat.at(chat.version)

    assert view.to_dict() == chat.to_dict()
    assert (view.items, view.messages(), view.tail(1)) == (chat.items, chat.messages(), chat.tail(1))
    assert view.active_config_at("m1") == ("Be brief.", ["t"])
    assert (view.estimated_tokens(), view.get_by_id("m1")) == (chat.estimated_tokens(), chat.get_by_id("m1"))


def test_a_live_view_goes_on_with_its_context() -> None:
    """V12.1: it shows what the context shows, and changes nothing of it."""
    chat = ChatContext()
    chat.add_message("user", "hi")
    for view in (chat.readonly, ReadOnlyChatContext(chat), ReadOnlyChatContext(chat.readonly)):
        chat.add_message("user", "more")

        assert type(view) is ReadOnlyChatContext
        assert (view.items, view.version, view.to_dict()) == (chat.items, chat.version, chat.to_dict())
        with pytest.raises(DecisionRefusedError):
            view.add_message("user", "no")


def test_a_view_of_a_contexts_items_is_live() -> None:
    """V12.1: made of `ctx.items`, it shows later changes, also of a list that was read before; a copy shows none."""
    chat = ChatContext()
    empty = ReadOnlyChatContext(chat.items)
    chat.add_message("user", "hi")
    live, past, copied = (
        ReadOnlyChatContext(items=chat.items),
        ReadOnlyChatContext(chat.at(2).items),
        ReadOnlyChatContext(chat.items.copy()),
    )
    chat.add_message("user", "more")
    chat.add_message("system", "be brief", replace=True)

    assert texts(live) == texts(empty) == texts(chat)
    assert (texts(past), texts(copied)) == (["hi"], ["hi"])
    with pytest.raises(RuntimeError):
        live.add_message("user", "no")


def test_conversions_are_functions_too() -> None:
    """Of the module `refold.chat`, as in the seed's module of converters."""
    chat = ChatContext()
    chat.add_message("system", "brief")
    chat.add_message("user", "hi")

    assert to_openai_messages(chat, reasoning_model=True) == chat.to_openai_messages(reasoning_model=True)
    assert to_anthropic_messages(chat, caching=True) == chat.to_anthropic_messages(caching=True)
    assert asyncio.run(to_google_contents(chat))[1] == "brief"


def test_views_of_items_of_nobody() -> None:
    """V12.6: of a list, of what `to_dict()` gave, and of nothing."""
    chat = ChatContext()
    chat.add_message("user", "hi", message_id="m1")
    items = list(chat.items)
    view, read, nothing = (
        ReadOnlyChatContext(items),
        ReadOnlyChatContext.from_dict(chat.to_dict()),
        (ReadOnlyChatContext.empty()),
    )
    chat.add_message("user", "more")
    items.clear()

    assert (texts(view), texts(read), texts(nothing)) == (["hi"], ["hi"], [])
    assert (view.get_by_id("m1"), read.get_by_id("m1")) == (chat.items[0], chat.items[0])
