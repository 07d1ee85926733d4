"""Finding hooks again: by name and type, and what may share a name (SPEC P6.12 to P6.15)."""

from typing import Any

import pytest

from refold.domain.hooks.hook import ContextPoolHook, ContextQueueHook, Hook, TurnHook, UnregisteredHookError
from refold.domain.hooks.registry import HookDecorator, HookRegistry, hook


async def note(*args: Any, **kwargs: Any) -> None:
    """Do nothing, under a name."""


class Owner:
    """Something with hooks of two types."""

    before_append = HookDecorator(ContextQueueHook.BEFORE_APPEND, "Before it.")
    after_append = HookDecorator(ContextQueueHook.AFTER_APPEND, "After it.")
    paired = HookDecorator(ContextQueueHook.ON_EVICT, "With its type.", into="pairs", paired=True)

    def __init__(self) -> None:
        self.hooks: list[Hook] = []
        self.pairs: list[tuple[Any, Hook]] = []


def test_a_method_decorator_attaches_and_registers() -> None:
    """With or without options; it returns the hook, and replaced lists are respected (SPEC P6.3)."""
    owner = Owner()

    plain = owner.before_append(note)
    owner.hooks = []

    @owner.after_append(lock=True, extra="x")
    async def with_options(extra: str) -> None: ...

    assert owner.hooks == [with_options]
    assert (plain.type, plain.lock, plain.fixed_kwargs) == (ContextQueueHook.BEFORE_APPEND, None, {})
    assert with_options.lock is not None
    assert with_options.fixed_kwargs == {"extra": "x"}
    assert HookRegistry.get("with_options") is with_options
    assert Owner.before_append.__doc__ == "Before it."


def test_a_method_decorator_may_keep_the_type_beside_the_hook() -> None:
    """In another list of the owner."""
    owner = Owner()

    made = owner.paired(note)

    assert (owner.pairs, owner.hooks) == ([(ContextQueueHook.ON_EVICT, made)], [])


@pytest.mark.parametrize("is_stacked", [False, True])
def test_one_function_has_a_hook_for_each_type(is_stacked: bool) -> None:
    """Both are found again by name and type (SPEC P6.12)."""
    owner = Owner()
    before = owner.before_append(note)
    after = owner.after_append(before if is_stacked else note)

    assert owner.hooks == [before, after]
    assert (before.type, after.type) == (ContextQueueHook.BEFORE_APPEND, ContextQueueHook.AFTER_APPEND)
    assert before.fn is after.fn is note
    assert HookRegistry.get("note", ContextQueueHook.BEFORE_APPEND) is before
    assert HookRegistry.get("note", ContextQueueHook.AFTER_APPEND) is after
    assert HookRegistry.get("note") is before


def test_the_same_function_for_the_same_type_is_the_same_hook() -> None:
    """So that each of its owners can be saved."""
    first = Owner().before_append(note)

    assert Owner().before_append(note) is first
    assert Owner().before_append(first) is first


def test_other_options_make_another_hook() -> None:
    """They are not ignored; the first one stays the registered one (SPEC P6.12)."""
    first = Owner().before_append(note)

    locked = Owner().before_append(lock=True)(note)
    fixed = Owner().before_append(x=1)(first)

    assert len({id(first), id(locked), id(fixed)}) == 3
    assert locked.lock is not None
    assert fixed.fixed_kwargs == {"x": 1}
    assert HookRegistry.get("note") is first


def test_queue_and_pool_have_hooks_of_their_own() -> None:
    """Though their types are written alike."""
    of_queue = HookRegistry.wrap(note, ContextQueueHook.BEFORE_CLEAR)
    of_pool = HookRegistry.wrap(note, ContextPoolHook.BEFORE_CLEAR)

    assert HookRegistry.get("note", ContextQueueHook.BEFORE_CLEAR) is of_queue
    assert HookRegistry.get("note", ContextPoolHook.BEFORE_CLEAR) is of_pool


def test_a_second_closure_of_a_name_works_unregistered() -> None:
    """It is attached, and the name stays with the first (SPEC P6.13)."""

    def closure() -> Any:
        async def same_name() -> None: ...

        return same_name

    first, second = Owner(), Owner()
    registered, other = first.before_append(closure()), second.before_append(closure())

    assert second.hooks == [other]
    assert HookRegistry.get("same_name") is registered
    assert (HookRegistry.holds(registered), HookRegistry.holds(other)) == (True, False)


def test_a_name_is_taken_once() -> None:
    """
    By another function never, by the same one for the same type neither; the same hook again is fine.

    The error is a ValueError and nothing more, so that it is told from that of a hook that cannot be saved.
    """
    made = hook(TurnHook.BEFORE_RUN)(note)

    async def other() -> None: ...

    other.__name__ = "note"
    HookRegistry.register(made)
    for again in (other, Hook(other, TurnHook.AFTER_RUN), Hook(note, TurnHook.BEFORE_RUN)):
        with pytest.raises(ValueError, match="'note' already registered") as refusal:
            HookRegistry.register(again)
        assert type(refusal.value) is ValueError

    assert HookRegistry.get_global_by_type(TurnHook.BEFORE_RUN) == [made]


def test_what_is_not_there_is_not_found() -> None:
    """Neither an unknown name nor a known one for another type; the error is a KeyError (SPEC P6.15)."""
    HookRegistry.wrap(note, ContextQueueHook.BEFORE_CLEAR)

    with pytest.raises(UnregisteredHookError, match="'nope' not found"):
        HookRegistry.get("nope")
    with pytest.raises(KeyError, match="'note' not found for 'before_clear'"):
        HookRegistry.get("note", ContextPoolHook.BEFORE_CLEAR)


def test_a_function_without_a_type_is_found_by_its_name() -> None:
    """Registered as it is, it says of no type that it is not for it."""
    HookRegistry.register(note)

    assert HookRegistry.get("note", TurnHook.BEFORE_RUN) is HookRegistry.get("note") is note


def test_unregistering_frees_a_name() -> None:
    """All its hooks stop firing globally, and stay with their owners."""
    owner = Owner()
    made = hook(TurnHook.BEFORE_RUN)(note)
    owner.before_append(made)
    kept = hook(TurnHook.BEFORE_RUN)(_named("kept"))

    HookRegistry.unregister("note")

    assert HookRegistry.get_global_by_type(TurnHook.BEFORE_RUN) == [kept]
    assert [one.fn for one in owner.hooks] == [note]
    with pytest.raises(UnregisteredHookError, match="'note' not found"):
        HookRegistry.unregister("note")


def test_clearing_forgets_everything() -> None:
    """Names and global hooks, also when a test has put in lists of its own."""
    HookRegistry._global_hooks = []
    hook(TurnHook.BEFORE_RUN)(note)

    HookRegistry.clear()

    assert HookRegistry.get_global_by_type(TurnHook.BEFORE_RUN) == []
    with pytest.raises(UnregisteredHookError):
        HookRegistry.get("note")


def _named(name: str) -> Any:
    async def made() -> None: ...

    made.__name__ = name
    return made
