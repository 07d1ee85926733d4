"""Hooks in what is saved, and back (SPEC P5.7 to P5.11)."""

from typing import Any

import pytest

from refold.domain.errors import RefoldError
from refold.domain.hooks.hook import (
    AgentHook,
    ContextPoolHook,
    ContextQueueHook,
    Hook,
    TurnHook,
    UnregisteredHookError,
    UnserializableHookError,
)
from refold.domain.hooks.registry import HookRegistry, hook, rebuild_hooks_from_serialization, serialize_hooks_by_type


async def note(*args: Any, **kwargs: Any) -> None:
    """Do nothing, under a name."""


async def other(*args: Any, **kwargs: Any) -> None:
    """Do nothing, under another name."""


def test_hooks_come_back_as_the_same_objects() -> None:
    """By their types and names; each as often and in the order that it was listed (SPEC P5.7, P5.11)."""
    before = HookRegistry.wrap(note, ContextQueueHook.BEFORE_APPEND, lock=True, x=1)
    after = HookRegistry.wrap(note, ContextQueueHook.AFTER_APPEND)
    second = HookRegistry.wrap(other, ContextQueueHook.BEFORE_APPEND)

    saved = serialize_hooks_by_type([before, second, before, after])

    assert saved == {"before_append": ["note", "other", "note"], "after_append": ["note"]}
    restored = rebuild_hooks_from_serialization(saved, ContextQueueHook)
    assert restored == [before, second, before, after]


def test_a_hook_of_several_types_is_restored_once() -> None:
    """Though each of them lists it, also those of another kind of owner (SPEC P5.8)."""
    several = hook([TurnHook.ON_ERROR, AgentHook.AFTER_TURN])(note)

    saved = serialize_hooks_by_type([several])

    assert saved == {"on_error": ["note"], "after_turn": ["note"]}
    assert rebuild_hooks_from_serialization(saved, AgentHook) == [several]


def test_two_types_that_are_written_alike_are_listed_once() -> None:
    """One hook for the clearing of queues and pools is one hook."""
    both = hook([ContextQueueHook.BEFORE_CLEAR, ContextPoolHook.BEFORE_CLEAR])(note)

    saved = serialize_hooks_by_type([both])

    assert saved == {"before_clear": ["note"]}
    assert rebuild_hooks_from_serialization(saved, ContextPoolHook) == [both]


def test_the_owner_decides_which_of_two_is_meant() -> None:
    """Queues and pools both have a "before_clear"."""
    of_queue = HookRegistry.wrap(note, ContextQueueHook.BEFORE_CLEAR)
    of_pool = HookRegistry.wrap(note, ContextPoolHook.BEFORE_CLEAR)
    saved = {"before_clear": ["note"]}

    assert rebuild_hooks_from_serialization(saved, ContextQueueHook) == [of_queue]
    assert rebuild_hooks_from_serialization(saved, ContextPoolHook) == [of_pool]
    assert rebuild_hooks_from_serialization(saved) == [of_queue]


def test_an_unknown_name_is_told() -> None:
    """Nothing is restored halfway; the error is a KeyError (SPEC P5.7)."""
    HookRegistry.wrap(note, ContextQueueHook.BEFORE_APPEND)

    for saved in ({"before_append": ["note", "nope"]}, {"on_evict": ["note"]}, {"nothing": ["note"]}):
        with pytest.raises(UnregisteredHookError, match="not found") as refusal:
            rebuild_hooks_from_serialization(saved, ContextQueueHook)
        assert isinstance(refusal.value, KeyError)


def test_a_hook_that_could_not_be_found_again_is_refused() -> None:
    """A closure, other options, or a plain callable; the error is a ValueError (SPEC P5.9)."""
    HookRegistry.wrap(note, ContextQueueHook.BEFORE_APPEND)

    async def closure() -> None: ...

    closure.type = ContextQueueHook.BEFORE_APPEND  # type: ignore[attr-defined]
    with_options = HookRegistry.wrap(note, ContextQueueHook.BEFORE_APPEND, lock=True)
    for unknown in (Hook(other, ContextQueueHook.BEFORE_APPEND), with_options, closure):
        with pytest.raises(UnserializableHookError, match="is not the one registered under that name") as refusal:
            serialize_hooks_by_type([unknown])
        assert isinstance(refusal.value, ValueError)
        assert isinstance(refusal.value, RefoldError)


def test_what_has_no_type_is_left_out() -> None:
    """It never fires either (SPEC P5.9)."""
    assert serialize_hooks_by_type([note]) == {}
