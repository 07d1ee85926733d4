"""
Hooks in what is saved: their names by the type they are for, and from there back to the hooks (SPEC P5.7 to P5.11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from .errors import UnserializableHookError
from .hook import types_of
from .registry import HookRegistry


def serialize_hooks_by_type(hooks: Iterable[Any]) -> dict[str, list[str]]:
    """
    Return the names of hooks by their type's value; what has no type is left out.

    Raises:
        UnserializableHookError: a hook could not be found again by its name (a ValueError).
    """
    saved: dict[str, list[str]] = {}
    for hook in hooks:
        name = getattr(hook, "__name__", "hook")
        # Of a hook for queues and pools both, two types are written alike.
        for kind in dict.fromkeys(str(getattr(one, "value", one)) for one in types_of(hook)):
            if not HookRegistry.holds(hook):
                raise UnserializableHookError(name)
            saved.setdefault(kind, []).append(name)
    return saved


def rebuild_hooks_from_serialization(data: Mapping[str, Sequence[str]], kinds: type[Enum] | None = None) -> list[Any]:
    """
    Return the hooks of `serialize_hooks_by_type`, each as often as it was there.

    `kinds` are the types of the owner: "before_clear" means something else for a queue than for a pool.

    Raises:
        UnregisteredHookError: no hook is registered under a name and type (a KeyError).
    """
    owned = {str(kind.value): kind for kind in kinds or ()}
    hooks: list[Any] = []
    for value, names in data.items():
        found = [HookRegistry.get(name, owned.get(value, value)) for name in names]
        for place, hook in enumerate(found):
            # One for several types was there once, though each of them lists it.
            if _count(hook, hooks) < _count(hook, found[: place + 1]):
                hooks.append(hook)
    return hooks


def _count(hook: object, hooks: Sequence[object]) -> int:
    return sum(one is hook for one in hooks)
