"""The registry of hooks: finding them by name and type, and calling them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from ..errors import InvalidInputError, NotFoundError, ReadOnlyError
from ..frozen import FrozenList
from .hook import Hook, HookFunction, HookType, UnregisteredHookError, UnserializableHookError, require_async, types_of

T = TypeVar("T")


class Registry(Generic[T]):
    """A registry of items by name. Each kind of item has a subclass; it has no instances."""

    _registry: ClassVar[dict[str, Any]] = {}
    _name_attribute: ClassVar[str] = "__name__"
    _not_found: ClassVar[type[NotFoundError]] = NotFoundError

    @classmethod
    def clear(cls) -> None:
        """Remove all items."""
        cls._registry = {}

    @classmethod
    def register(cls, item: T) -> None:
        """
        Register an item under its name.

        Raises:
            InvalidInputError: the name is taken (a ValueError).
        """
        name = getattr(item, cls._name_attribute)
        cls.require_free(name)
        cls._registry[name] = item

    @classmethod
    def require_free(cls, name: str) -> None:
        """
        Raise an error if a name is taken.

        Raises:
            InvalidInputError: it is taken (a ValueError).
        """
        if name in cls._registry:
            raise InvalidInputError(taken_text(name))

    @classmethod
    def get(cls, name: str) -> T:
        """
        Return the item of this name.

        Raises:
            NotFoundError: there is no such item (a KeyError).
        """
        if name not in cls._registry:
            raise cls._missing(name)
        item: T = cls._registry[name]
        return item

    @classmethod
    def unregister(cls, name: str) -> None:
        """
        Free a name; references to the item stay valid.

        Raises:
            NotFoundError: nothing has this name (a KeyError).
        """
        if name not in cls._registry:
            raise cls._missing(name)
        del cls._registry[name]

    @classmethod
    def _missing(cls, name: str) -> NotFoundError:
        return cls._not_found(f"{name!r} not found: define or register it before it is looked up")


def taken_text(name: str) -> str:
    """Return the error message for a name that is taken."""
    return f"{name!r} already registered: choose another name, or unregister({name!r}) first"


class HookRegistry:
    """
    All hooks that can be found by name, and the global hooks, which fire for every owner.

    A name belongs to one function. If a function is registered for several types, it has a hook for each, found by name
    and type.
    """

    # The attributes have the same names as in the seed, where users reset them between tests.
    _registry: ClassVar[dict[str, list[Any]]] = {}
    _global_hooks: ClassVar[list[Any]] = []

    @classmethod
    def clear(cls) -> None:
        """Remove all hooks, also the global ones."""
        cls._registry = {}
        cls._global_hooks = []

    @classmethod
    def register(cls, hook: Hook | HookFunction) -> None:
        """
        Register a hook, or an async function, under its name; registering the same one again changes nothing.

        Raises:
            ValueError: the name is taken by another function, or for this type.
            NotAsyncError: the function is not async (a TypeError).
        """
        name = require_async(hook)
        known = cls._registry.get(name, [])
        if any(one is hook for one in known):
            return
        if any(_collide(one, hook) for one in known):
            # Not an InvalidInputError, of which UnserializableHookError is a subclass.
            raise ValueError(taken_text(name))
        cls._registry.setdefault(name, []).append(hook)

    @classmethod
    def get(cls, name: str, hook_type: Enum | str | None = None) -> Any:
        """
        Return the hook of this name: the one for `hook_type` if it is given, else the first.

        A plain function has no type, and is found by its name only.

        Raises:
            UnregisteredHookError: there is no such hook (a KeyError).
        """
        for hook in cls._registry.get(name, ()):
            types = types_of(hook)
            if hook_type is None or not types or any(_is_type(one, hook_type) for one in types):
                return hook
        kind = "" if hook_type is None else f" for {str(getattr(hook_type, 'value', hook_type))!r}"
        raise UnregisteredHookError(f"{name!r} not found{kind}: define or register the hook before it is looked up")

    @classmethod
    def holds(cls, hook: object) -> bool:
        """Return whether this very hook is registered under its name."""
        return any(one is hook for one in cls._registry.get(getattr(hook, "__name__", ""), ()))

    @classmethod
    def unregister(cls, name: str) -> None:
        """
        Free a name; its hooks no longer fire globally, but stay in the lists of their owners.

        Raises:
            UnregisteredHookError: nothing has this name (a KeyError).
        """
        cls.get(name)
        gone = cls._registry.pop(name)
        cls._global_hooks = [hook for hook in cls._global_hooks if not any(hook is one for one in gone)]

    @classmethod
    def register_global(cls, hook: Hook) -> None:
        """
        Register a hook under its name, and fire it for every owner that its tags allow.

        Raises:
            ValueError: as for `register`.
        """
        cls.register(hook)
        cls._global_hooks.append(hook)

    @classmethod
    def get_by_type(cls, hook_type: HookType, hooks: Iterable[Any]) -> list[Any]:
        """
        Return the hooks among `hooks` that are for this type, in order. Types are compared by identity: queues and
        pools both have a "before_clear".
        """
        return [hook for hook in hooks if any(one is hook_type for one in types_of(hook))]

    @classmethod
    def get_global_by_type(cls, hook_type: HookType) -> list[Any]:
        """Return the global hooks for this type, in the order of their registration."""
        return cls.get_by_type(hook_type, cls._global_hooks)

    @classmethod
    async def fire(
        cls,
        hook_type: HookType,
        instance_hooks: Iterable[Any],
        /,
        *args: Any,
        _source_tags: frozenset[str] = frozenset(),
        **kwargs: Any,
    ) -> None:
        """
        Await an owner's own hooks of this type, which the caller has selected, then the global ones.

        A hook in both lists is awaited once. A global hook with tags fires only if `_source_tags` has one of them.
        After a hook that raises, no further hook is called.
        """
        fired = list(instance_hooks)
        for hook in fired:
            await hook(*args, **kwargs)
        for hook in cls.get_global_by_type(hook_type):
            tags = getattr(hook, "tags", None)
            is_wanted = tags is None or not tags.isdisjoint(_source_tags)
            if is_wanted and not any(hook is one for one in fired):
                await hook(*args, **kwargs)

    @classmethod
    def wrap(
        cls,
        fn: Hook | HookFunction,
        hook_type: HookType | Sequence[HookType],
        *,
        lock: bool = False,
        **fixed_kwargs: Any,
    ) -> Hook:
        """
        Return a hook of this type for an owner's own list: a registered one that does the same, or a new one.

        A new hook is registered if its name is free for its type. A second closure of the same name works without
        registration, but its owner cannot be saved.

        Raises:
            NotAsyncError: the function is not async (a TypeError).
        """
        types = type_tuple(hook_type)
        if isinstance(fn, Hook):
            if not lock and not fixed_kwargs and fn.is_for(types):
                cls._register_if_free(fn)
                return fn
            fn = fn.fn
        for known in cls._registry.get(getattr(fn, "__name__", ""), ()):
            if isinstance(known, Hook) and known.is_like(fn, types, lock=lock, fixed=fixed_kwargs):
                return known
        hook = Hook(fn, types if len(types) > 1 else types[0], lock=lock, fixed_kwargs=fixed_kwargs)
        cls._register_if_free(hook)
        return hook

    @classmethod
    def _register_if_free(cls, hook: Hook) -> None:
        if not any(_collide(one, hook) for one in cls._registry.get(hook.__name__, ())):
            cls.register(hook)


def type_tuple(hook_type: HookType | Sequence[HookType]) -> tuple[HookType, ...]:
    """
    Return one type or several as a tuple.

    Raises:
        InvalidInputError: no type is given, or one for which no hook is ever called (a ValueError).
    """
    types = tuple(hook_type) if isinstance(hook_type, list | tuple) else (hook_type,)
    if not types:
        raise InvalidInputError("a hook requires at least one type")
    for one in types:
        if not isinstance(one, Enum):
            raise InvalidInputError(f"{one!r} is no type of hooks: take a member of an enum, as TurnHook.BEFORE_RUN")
    return types


def _collide(one: object, other: object) -> bool:
    if getattr(one, "fn", one) is not getattr(other, "fn", other):
        return True
    return any(mine is theirs for mine in types_of(one) for theirs in types_of(other))


def _is_type(one: object, wanted: object) -> bool:
    # A type of an unknown kind is compared by its text only.
    return one is wanted or (not isinstance(wanted, Enum) and one == wanted)


def serialize_hooks_by_type(hooks: Iterable[Any]) -> dict[str, list[str]]:
    """
    Return the names of hooks by their type's value; hooks without a type are left out.

    Raises:
        UnserializableHookError: a hook cannot be found by its name (a ValueError).
    """
    saved: dict[str, list[str]] = {}
    for hook in hooks:
        name = getattr(hook, "__name__", "hook")
        # A hook for queues and pools may have two types with the same text.
        for kind in dict.fromkeys(str(getattr(one, "value", one)) for one in types_of(hook)):
            if not HookRegistry.holds(hook):
                raise UnserializableHookError(name)
            saved.setdefault(kind, []).append(name)
    return saved


def rebuild_hooks_from_serialization(data: Mapping[str, Sequence[str]], kinds: type[Enum] | None = None) -> list[Any]:
    """
    Return the hooks of a result of `serialize_hooks_by_type`, each as often as it was in the owner's list.

    `kinds` are the types of the owner: "before_clear" is a different type for a queue than for a pool.

    Raises:
        UnregisteredHookError: no hook is registered under a name and type (a KeyError).
    """
    owned = {str(kind.value): kind for kind in kinds or ()}
    hooks: list[Any] = []
    for value, names in data.items():
        found = [HookRegistry.get(name, owned.get(value, value)) for name in names]
        for place, hook in enumerate(found):
            # A hook for several types is listed under each of them, but was in the owner's list only once.
            if _count(hook, hooks) < _count(hook, found[: place + 1]):
                hooks.append(hook)
    return hooks


def _count(hook: object, hooks: Sequence[object]) -> int:
    return sum(one is hook for one in hooks)


def hook(
    type: HookType | Sequence[HookType], *, lock: bool = False, tags: Iterable[str] | None = None, **fixed_kwargs: Any
) -> Callable[[HookFunction], Hook]:
    """
    Make the decorated async function a hook that fires for every owner of this type or these types.

    With `tags` it fires only for owners that have one of them. A function for several types is called with the
    arguments of each type. `lock` and the fixed keyword arguments are as for `Hook`.

    Raises:
        InvalidInputError: no type is given, or a value that is not a type (a ValueError).
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
    """A method decorator of one owner: it is called with the function alone, or first with options."""

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

    The decorated function is added to the owner's list `into`; with `paired`, as a pair of its type and the function.
    """

    def __init__(self, hook_type: HookType, doc: str, *, into: str = "hooks", paired: bool = False) -> None:
        self._hook_type, self._into, self._paired = hook_type, into, paired
        self.__doc__ = doc

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type) -> _Attach: ...

    def __get__(self, owner: object | None, kind: type) -> Self | _Attach:
        if owner is None:
            return self
        if isinstance(getattr(owner, self._into), FrozenList):
            # Checked before the hook is registered.
            name = type(owner).__name__
            raise ReadOnlyError(f"this {name} is a view: add the hooks to the object that it shows")

        def attach(made: Hook) -> None:
            getattr(owner, self._into).append((self._hook_type, made) if self._paired else made)

        return _Attach(self._hook_type, attach)
