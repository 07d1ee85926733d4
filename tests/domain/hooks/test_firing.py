"""Firing: in which order hooks are awaited, which of them, and with what (SPEC P6.2 to P6.11)."""

import asyncio
import logging
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError, RefoldError
from refold.domain.hooks.hook import (
    AgentHook,
    ContextPoolHook,
    ContextQueueHook,
    Hook,
    HookMetadata,
    NotAsyncError,
    TurnHook,
)
from refold.domain.hooks.registry import HookRegistry, hook


def fire(kind: Any, *args: Any, own: list[Any] | None = None, tags: str = "", **kwargs: Any) -> None:
    """Fire hooks of one type, for an owner with tags."""
    picked = HookRegistry.get_by_type(kind, own or [])
    asyncio.run(HookRegistry.fire(kind, picked, *args, _source_tags=frozenset(tags.split()), **kwargs))


def noting(heard: list[Any], name: str, kind: Any = TurnHook.BEFORE_RUN) -> Hook:
    """Return a hook that notes its name and what it was called with."""

    async def note(*args: Any) -> None:
        heard.append((name, *args))

    note.__name__ = name
    return Hook(note, kind)


def test_own_hooks_come_before_global_ones() -> None:
    """In the order of the list, then in that of their registration; one that is both is awaited once (SPEC P6.5)."""
    heard: list[Any] = []
    first, both, last = (noting(heard, name) for name in ("first", "both", "last"))
    HookRegistry.register_global(last)
    HookRegistry.register_global(both)

    fire(TurnHook.BEFORE_RUN, 1, own=[first, both])

    assert heard == [("first", 1), ("both", 1), ("last", 1)]


def test_a_hook_that_is_listed_twice_is_awaited_twice() -> None:
    """The list is the owner's word (SPEC P6.6)."""
    heard: list[Any] = []
    twice = noting(heard, "h")

    fire(TurnHook.BEFORE_RUN, own=[twice, twice])

    assert heard == [("h",), ("h",)]


def test_types_are_compared_by_identity() -> None:
    """Both enums have a "before_clear", and they are two things (SPEC P6.2)."""
    heard: list[Any] = []
    of_queue = noting(heard, "h", ContextQueueHook.BEFORE_CLEAR)

    fire(ContextPoolHook.BEFORE_CLEAR, own=[of_queue])

    assert ContextQueueHook.BEFORE_CLEAR == ContextPoolHook.BEFORE_CLEAR  # type: ignore[comparison-overlap]
    assert heard == []


@pytest.mark.parametrize(
    ("wanted", "tags", "is_fired"),
    [(None, "", True), (None, "a", True), ({"a", "b"}, "b c", True), ({"a"}, "c", False), ({"a"}, "", False)],
)
def test_tags_choose_the_owners_of_a_global_hook(wanted: set[str] | None, tags: str, is_fired: bool) -> None:
    """One in common is enough; a hook without tags fires for all, an owner without tags matches none (SPEC P6.7)."""
    heard: list[int] = []

    @hook(TurnHook.BEFORE_RUN, tags=wanted)
    async def tagged() -> None:
        heard.append(1)

    fire(TurnHook.BEFORE_RUN, tags=tags)

    assert bool(heard) == is_fired


def test_tags_do_not_hold_back_an_own_hook() -> None:
    """Whoever lists a hook means it (SPEC P6.7)."""
    heard: list[int] = []

    @hook(TurnHook.BEFORE_RUN, tags={"a"})
    async def tagged() -> None:
        heard.append(1)

    fire(TurnHook.BEFORE_RUN, own=[tagged])

    assert heard == [1]


def test_a_hook_that_raises_ends_it() -> None:
    """Those behind it are not awaited (SPEC P6.8)."""
    heard: list[Any] = []

    @hook(TurnHook.BEFORE_RUN)
    async def refusing() -> None:
        raise RuntimeError("no")

    HookRegistry.register_global(noting(heard, "behind"))

    with pytest.raises(RuntimeError, match="no"):
        fire(TurnHook.BEFORE_RUN)

    assert heard == []


def test_a_hook_that_is_added_meanwhile_waits_for_the_next_time() -> None:
    """Own hooks are picked before; global ones are looked up after the own ones ran (SPEC P6.14)."""
    heard: list[Any] = []
    own: list[Any] = []

    async def adding() -> None:
        own.append(noting(heard, "own"))
        HookRegistry.register_global(noting(heard, "global"))

    own.append(Hook(adding, TurnHook.BEFORE_RUN))

    fire(TurnHook.BEFORE_RUN, own=own)

    assert heard == [("global",)]


def test_a_hook_of_several_types_matches_each() -> None:
    """Its type is then a tuple, and may be given as one (SPEC P6.4)."""

    @hook([AgentHook.BEFORE_TURN, TurnHook.AFTER_RUN])
    async def several(*args: Any) -> None: ...

    assert several.type == (AgentHook.BEFORE_TURN, TurnHook.AFTER_RUN)
    assert HookRegistry.wrap(several, several.type) is several
    assert HookRegistry.get_global_by_type(AgentHook.BEFORE_TURN) == [several]
    assert HookRegistry.get_global_by_type(TurnHook.AFTER_RUN) == [several]
    assert HookRegistry.get_global_by_type(TurnHook.BEFORE_RUN) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [([], "at least one type"), ("before_run", "'before_run' is no type of hooks"), ([None], "None is no type")],
)
def test_a_hook_needs_a_type(wrong: Any, told: str) -> None:
    """One for which it could be called: an empty list is refused (SPEC P6.4), and so is a text that looks like one."""
    with pytest.raises(InvalidInputError, match=told):
        hook(wrong)


def test_a_plain_callable_with_a_type_may_be_listed() -> None:
    """Only its `type` is looked at; without one it is left out."""
    heard: list[int] = []

    async def plain() -> None:
        heard.append(1)

    async def typeless() -> None:
        raise AssertionError("it has no type")

    plain.type = frozenset({TurnHook.BEFORE_RUN})  # type: ignore[attr-defined]

    fire(TurnHook.BEFORE_RUN, own=[plain, typeless])

    assert heard == [1]


def test_fixed_arguments_go_into_every_call(caplog: pytest.LogCaptureFixture) -> None:
    """One that comes with the call wins, and the log says so (SPEC P6.11)."""
    heard: list[Any] = []

    @hook(TurnHook.BEFORE_RUN, note="fixed", other=1)
    async def with_fixed(note: str, other: int) -> None:
        heard.append((note, other))

    asyncio.run(with_fixed())
    with caplog.at_level(logging.WARNING):
        asyncio.run(with_fixed(note="given"))

    assert heard == [("fixed", 1), ("given", 1)]
    assert [record.getMessage() for record in caplog.records] == [
        "Fixed kwarg 'note' is overridden in a call of hook 'with_fixed'."
    ]


def test_a_lambda_is_called_when_the_hook_fires() -> None:
    """Each time, and not when a given argument takes its place (SPEC P6.11)."""
    counted = iter(range(10))
    heard: list[int] = []

    @hook(TurnHook.BEFORE_RUN, count=lambda: next(counted))
    async def counting(count: int) -> None:
        heard.append(count)

    asyncio.run(counting())
    asyncio.run(counting(count=7))
    asyncio.run(counting())

    assert heard == [0, 7, 1]


def test_a_hook_is_known_by_its_functions_name_and_text() -> None:
    """That is what its metadata holds."""

    @hook(TurnHook.BEFORE_RUN)
    async def described() -> None:
        """What it does."""

    assert described.metadata == HookMetadata("described", "What it does.")
    assert described.metadata.dict() == {"name": "described", "description": "What it does."}
    assert repr(described).startswith("Hook(type=<TurnHook.BEFORE_RUN: 'before_run'>, metadata=")


@pytest.mark.parametrize("way", ["global", "wrapped", "registered", "built in"])
def test_a_plain_function_is_refused_when_it_is_registered(way: str) -> None:
    """Not only when it fires, and nothing is registered; the error is a TypeError (SPEC P6.9)."""

    def plain() -> None: ...

    refused: dict[str, Any] = {
        "global": lambda: hook(TurnHook.BEFORE_RUN)(plain),  # type: ignore[arg-type]
        "wrapped": lambda: HookRegistry.wrap(plain, TurnHook.BEFORE_RUN),  # type: ignore[arg-type]
        "registered": lambda: HookRegistry.register(plain),  # type: ignore[arg-type]
        "built in": lambda: Hook(len, TurnHook.BEFORE_RUN),  # type: ignore[arg-type]
    }
    with pytest.raises(NotAsyncError, match="must be async") as refusal:
        refused[way]()

    assert isinstance(refusal.value, TypeError)
    assert isinstance(refusal.value, RefoldError)
    assert HookRegistry.get_global_by_type(TurnHook.BEFORE_RUN) == []


def test_a_hook_needs_a_name() -> None:
    """Or it could not be found again."""

    class Callable:
        async def __call__(self) -> None: ...

    with pytest.raises(InvalidInputError, match="has no __name__"):
        Hook(Callable(), TurnHook.BEFORE_RUN)
