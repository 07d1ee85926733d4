"""Making hooks by decorating functions: `@hook(type)` for all owners, `@queue.before_append` for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, overload

from .hook import Hook, HookFunction, HookType
from .registry import HookRegistry, type_tuple


def hook(
    type: HookType | Sequence[HookType], *, lock: bool = False, tags: Iterable[str] | None = None, **fixed_kwargs: Any
) -> Callable[[HookFunction], Hook]:
    """
    Make the decorated async function a hook that fires for every owner of this type, or of these (SPEC P6.4).

    With `tags` it fires for owners only that have one of them. A function for several types is called with what
    each of them gives. `lock` and the fixed keyword arguments are as for `Hook`.

    Raises:
        InvalidInputError: no type is given, or one that is none (a ValueError).
        ValueError: the name is taken.
        NotAsyncError: the function is not async (a TypeError).
    """
    types = type_tuple(type)

    def decorate(fn: HookFunction) -> Hook:
        made = Hook(fn, types if len(types) > 1 else types[0], lock=lock, fixed_kwargs=fixed_kwargs, tags=tags)
        HookRegistry.register_global(made)
        return made

    return decorate


class _Attach:
    """A method decorator of one owner: with the function alone, or with options first (SPEC P6.3)."""

    def __init__(self, hook_type: HookType, attach: Callable[[Hook], None]) -> None:
        self._hook_type, self._attach = hook_type, attach

    @overload
    def __call__(self, fn: HookFunction, *, lock: bool = False, **fixed_kwargs: Any) -> Hook: ...

    @overload
    def __call__(
        self, fn: None = None, *, lock: bool = False, **fixed_kwargs: Any
    ) -> Callable[[HookFunction], Hook]: ...

    def __call__(
        self, fn: HookFunction | None = None, *, lock: bool = False, **fixed_kwargs: Any
    ) -> Hook | Callable[[HookFunction], Hook]:
        def decorate(decorated: HookFunction) -> Hook:
            made = HookRegistry.wrap(decorated, self._hook_type, lock=lock, **fixed_kwargs)
            self._attach(made)
            return made

        return decorate if fn is None else decorate(fn)


class HookDecorator:
    """
    A method decorator, declared in the class of its owner.

        before_append = HookDecorator(ContextQueueHook.BEFORE_APPEND, "Before items are put in: (queue, ...).")

    What it decorates goes into the owner's list `into`; `paired` puts it there together with its type.
    """

    def __init__(self, hook_type: HookType, doc: str, *, into: str = "hooks", paired: bool = False) -> None:
        self._hook_type, self._into, self._paired = hook_type, into, paired
        self.__doc__ = doc

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type) -> _Attach: ...

    def __get__(self, owner: object | None, kind: type) -> Self | _Attach:
        """Return the decorator of one owner."""
        if owner is None:
            return self

        def attach(made: Hook) -> None:
            getattr(owner, self._into).append((self._hook_type, made) if self._paired else made)

        return _Attach(self._hook_type, attach)
