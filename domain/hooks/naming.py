"""
Finding things again by name: the registries of hooks, tools and agents, each for the whole process.

They are module-level state by the seed's design: what is saved holds names, and what is loaded looks them up.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from ..errors import InvalidInputError, NotFoundError

T = TypeVar("T")


class Registry(Generic[T]):
    """Things by their name; each kind of thing has a subclass, which nobody makes instances of (SPEC P6.15)."""

    _registry: ClassVar[dict[str, Any]] = {}
    _name_attribute: ClassVar[str] = "__name__"
    _not_found: ClassVar[type[NotFoundError]] = NotFoundError

    @classmethod
    def clear(cls) -> None:
        """Forget everything."""
        cls._registry = {}

    @classmethod
    def register(cls, item: T) -> None:
        """
        Make an item known by its name.

        Raises:
            InvalidInputError: the name is taken (a ValueError).
        """
        name = getattr(item, cls._name_attribute)
        cls.require_free(name)
        cls._registry[name] = item

    @classmethod
    def require_free(cls, name: str) -> None:
        """
        Refuse a name that is taken.

        Raises:
            InvalidInputError: it is (a ValueError).
        """
        if name in cls._registry:
            raise InvalidInputError(taken_text(name))

    @classmethod
    def get(cls, name: str) -> T:
        """
        Return the item of this name.

        Raises:
            NotFoundError: there is none (a KeyError).
        """
        if name not in cls._registry:
            raise cls._missing(name)
        item: T = cls._registry[name]
        return item

    @classmethod
    def unregister(cls, name: str) -> None:
        """
        Free a name; whoever holds the item goes on holding it.

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
    """Return what is said of a name that is taken (SPEC P6.15)."""
    return f"{name!r} already registered: choose another name, or unregister({name!r}) first"
