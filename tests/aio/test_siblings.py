"""The async side has all that the sync side has, and its types: a wrong call is refused by the type checker."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable
from inspect import getattr_static
from types import FunctionType
from typing import Any, assert_type

import pytest

import refold
from refold.domain.chat.items import ChatItem
from refold.domain.errors import ReadOnlyError
from refold.domain.frozen import FrozenList
from refold.domain.memory.memory import Memory
from refold.infrastructure.aio import siblings
from refold.infrastructure.aio.proxy import AsyncProxy

from ..support.project import ROOT


def test_they_are_up_to_date() -> None:
    """`scripts/siblings` would change nothing; scripts/check asks for the same."""
    checked = subprocess.run(
        [ROOT / "scripts" / "siblings", "--check"], capture_output=True, encoding="utf-8", check=False
    )

    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("sync", "sibling"),
    [
        (refold.ChatContext, refold.AsyncChat),
        (refold.BudgetWindow, refold.AsyncBudgetWindow),
        (Memory, refold.AsyncMemory),
        (refold.Run, refold.AsyncRun),
        (refold.Store, refold.AsyncStore),
    ],
)
def test_no_call_is_left_out(sync: type, sibling: type) -> None:
    """A sibling names each public method and property, save those that serve other modules or block by their nature."""
    own = {name for name in dir(sync) if isinstance(getattr_static(sync, name), FunctionType | property)}
    missing = {name for name in own - set(dir(sibling)) if not name.startswith("_")}

    assert missing <= {"attach", "adopted_events", "aflush", "recorder", "run_projections"}


async def test_calls_are_checked() -> None:
    """
    Arguments and results have the types of the sync calls.

    mypy, which scripts/check runs, refuses each line that is marked here; an ignored error that is none is an error.
    """
    async with refold.aopen(":memory:") as store:
        assert_type(store, refold.AsyncStore)
        chat = await store.chat("a")
        assert_type(chat, refold.AsyncChat)
        assert_type(await chat.add_message("user", "hello"), refold.ChatMessage)
        assert_type(await chat.at(1), refold.AsyncChat)
        assert_type(await chat.items, FrozenList[ChatItem])
        assert_type(await chat.rebase(lambda sync: sync.version), int)
        run = await store.run("mia", "s")
        await run.close("done")
        assert_type(await run.is_closed, bool)

        with pytest.raises(ValueError, match="role"):
            await chat.add_message(5, "hello")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await chat.add_message("user", "hello", at=3)  # type: ignore[call-arg]
        with pytest.raises(AttributeError):
            await chat.add_telepathy()  # type: ignore[attr-defined]
        with pytest.raises(TypeError):
            len(chat.items)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await refold.aopen(":memory:", lasting=True)  # type: ignore[call-arg]


async def test_what_is_shown_through_a_sibling() -> None:
    """Contexts that calls return are async ones, too; `self` is the same one; `sync` is what is wrapped."""
    chat = refold.to_async(refold.ChatContext())
    await chat.add_message("user", "hello")
    fork, past = await chat.fork("b"), await chat.at(1)

    assert isinstance(chat.sync, refold.ChatContext)
    assert repr(chat) == "AsyncChat('detached')"
    assert (await chat.truncate(max_items=5)) is chat
    assert (await chat.merge(fork)) is chat  # type: ignore[arg-type]  # a type checker wants `fork.sync`
    assert [type(one) for one in (fork, past, chat.readonly)] == [refold.AsyncChat] * 3
    assert (await past.items, [type(one) for one in await fork.items]) == ([], [refold.ChatMessage])
    with pytest.raises(ReadOnlyError):
        await past.add_message("user", "never")


class Named(refold.ChatContext):
    """A user's own chat."""

    colour = "blue"

    @property
    def title(self) -> str:
        """Return the first words."""
        return str(self.items[0].content[0])  # type: ignore[union-attr]

    def rename(self, text: str) -> str:
        """Add a message."""
        return self.add_message("user", text).id


async def test_a_class_of_ones_own() -> None:
    """What it adds can be awaited, too, and plain values are given at once; so is it known what is missing."""
    chat: Any = refold.to_async(Named())
    await chat.rename("a title")

    assert isinstance(chat.title, Awaitable)
    assert (type(chat), await chat.title, chat.colour) == (refold.AsyncChat, "a title", "blue")
    with pytest.raises(AttributeError):
        _ = chat.subtitle


async def test_two_of_one_are_equal() -> None:
    """They stand for one object; of another class or another object, they are others."""
    chat = refold.ChatContext()
    one, same, other = (refold.to_async(of) for of in (chat, chat, refold.ChatContext()))

    assert (one == same, hash(one) == hash(same)) == (True, True)
    assert one != other
    assert one != chat
    with pytest.raises(AttributeError, match="AsyncChat has no attribute '_private'"):
        _ = one._private  # type: ignore[attr-defined]


async def test_a_forgotten_await() -> None:
    """The error, or Python's warning, names the call, and says what to do; a value that is not read is not true."""
    chat: Any = refold.to_async(refold.ChatContext())
    opening: Any = refold.aopen(":memory:")
    call = chat.add_message("user", "hi")
    shown = repr(call)
    call.close()

    assert "coroutine object AsyncChat.add_message" in shown
    for wrong, message in (
        (lambda: opening.chat("talk"), "the store is still to be opened, and has no 'chat': write `await"),
        (lambda: bool(chat.version), "is not read yet: await it"),
        (lambda: chat.version == 1, "is not read yet: await it"),
        (lambda: chat.version != 1, "is not read yet: await it"),
        (lambda: list(chat.items), "'ValueToAwait' object is not iterable"),
    ):
        with pytest.raises((AttributeError, TypeError), match=message):
            wrong()
    assert list(await asyncio.gather(chat.version, chat.version)) == [1, 1]


async def test_anything_else() -> None:
    """Of another object, methods and properties are awaited, without types."""
    moment: Any = refold.to_async(refold.Moment.parse("5"))  # type: ignore[call-overload]

    assert (await moment.events, await moment.includes(moment)) == (5, True)


@pytest.mark.parametrize(
    "name", ["AsyncBudgetWindow", "AsyncChat", "AsyncMemory", "AsyncPool", "AsyncQueue", "AsyncRun"]
)
def test_they_are_exported(name: str) -> None:
    """For annotations in a user's program."""
    assert getattr(refold, name) is getattr(siblings, name)


@pytest.mark.parametrize("sibling", [refold.AsyncChat, refold.AsyncStore])
def test_names_of_a_class_are_there(sibling: type[AsyncProxy[Any]]) -> None:
    """A class can be asked for them, as `help` and programs that make documents do."""
    for name, member in vars(sibling).items():
        assert getattr(sibling, name) is member or name.startswith("__"), name
