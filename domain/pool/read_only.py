"""
Queues and pools that can be read only: as they were at a version, or as they are, live.

A view is of the same class as what it shows, a user's own one too, so that it fits where that class is asked for.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NoReturn

from ..context.attachment import Home
from ..errors import DecisionRefusedError
from ..frozen import freeze
from ..hooks import HookDecorator
from .state import ContainerState

if TYPE_CHECKING:
    from typing import Self

    from .container import Container

# Classes of views of users' own classes; one that is forgotten is made again.
CLASSES_KEPT = 128


class ReadOnlyError(DecisionRefusedError, RuntimeError):
    """A view that can be read only was asked to change."""


class ReadOnly:
    """
    The half of a view that reads through another container, and refuses to change it.

    What a user's own class added is there as well: its methods run on the view, so they cannot change anything either.
    """

    _shows: Container[Any]
    _at_version: int | None
    _past: ContainerState | None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in dir(cls):
            if isinstance(getattr(cls, name, None), HookDecorator):
                # Refused when it is asked for: the hook would be registered before it could be attached.
                setattr(cls, name, property(_refuse_hook))

    @classmethod
    def of(cls, shown: Container[Any], version: int | None = None) -> Self:
        """Return a view of a container: at a version, or live."""
        classes: Any = (cls, type(shown))
        view: Self = object.__new__(_class_of_views(*classes))
        # A view has no lock, no journal and no hooks of its own.
        view.__dict__.update(_shows=shown, _at_version=version, _past=None)
        return view

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Read what the view does not have from what it shows; lists and dicts come as read-only ones."""
            if name == "_shows":
                # A view that is being copied has none for a moment.
                raise AttributeError(name)
            found = getattr(self._shows, name)
            return freeze(found) if isinstance(found, list | dict) else found

    @property
    def home(self) -> Home:
        """Where the container lives by now; it may have been adopted."""
        return self._shows.home

    @property
    def recorded_state(self) -> ContainerState:
        """The folded state at the version that is shown."""
        return self._shows.recorded_state if self._at_version is None else self._state

    @property
    def _state(self) -> ContainerState:
        if self._at_version is None:
            return self._shows.shown_state
        past = self._past or self._shows.past_state(self._at_version)
        self.__dict__["_past"] = past
        return past

    @property
    def version(self) -> int:
        """The stream version that is shown."""
        return self._shows.version if self._at_version is None else self._at_version

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise ReadOnlyError(
            f"this {type(self).__name__} is a view and cannot be changed: change the one it shows, or a branch of it"
        )

    async def _refuse_async(self, *args: object, **kwargs: object) -> NoReturn:
        self._refuse()

    append = add = remove = clear = evict = restore = merge = change_settings = change = repeated = _refuse_async
    name_version = cleanup = put_in = attach = adopted_events = rebase = __setattr__ = __delattr__ = _refuse


def _refuse_hook(view: ReadOnly) -> NoReturn:
    raise ReadOnlyError(
        f"this {type(view).__name__} is a view, and its changes are those of the one it shows: add hooks to that"
    )


@functools.lru_cache(CLASSES_KEPT)
def _class_of_views(views: type[Any], kind: type[Any]) -> type[Any]:
    if issubclass(views, kind):
        return views
    if issubclass(kind, views):
        return kind
    members = {"__module__": kind.__module__, "_class_of_branches": property(lambda view: kind)}
    return type(f"ReadOnly{kind.__name__}", (views, kind), members)
