"""
The seed's factory: one context for each round and agent in a process, kept until it is released.

A context is a run. It belongs to the store at the database that the options name; without one it is detached. The runs
of a detached session share a log in memory, which is gone when the last of them is released.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from ..domain.concurrency.locks import renew_in_child, synchronized
from ..domain.errors import InvalidInputError, RefoldError
from ..domain.trajectory.factory import RunFactory
from ..domain.trajectory.identity import RunId
from ..domain.trajectory.run import Run
from .open import open_store
from .store import Store


@dataclass(frozen=True, slots=True)
class ContextInitOptions:
    """
    The database of a context, and the steps with which `init_todolist()` fills its queues: names, or dicts with `name`.

    `database_url` is a location for `refold.open`: a URL, a path, or ":memory:".
    """

    database_url: str | None = None
    pre_workflow: tuple[str | Mapping[str, Any], ...] = ()
    post_workflow: tuple[str | Mapping[str, Any], ...] = ()


def build_context_init_options(config: Any) -> ContextInitOptions:
    """
    Return the options in a configuration: `CONTEXT.database.url`, `PRE_WORKFLOW` and `POST_WORKFLOW`.

    The configuration is nested mappings, or an object whose `get` accepts a path with dots.
    """
    return ContextInitOptions(
        database_url=_configured(config, "CONTEXT.database.url"),
        pre_workflow=tuple(_configured(config, "PRE_WORKFLOW") or ()),
        post_workflow=tuple(_configured(config, "POST_WORKFLOW") or ()),
    )


def _configured(config: Any, path: str) -> Any:
    found = config.get(path)
    if found is not None:
        return found
    found = config
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


class _Home(NamedTuple):
    """The function that makes runs, and the function that releases them."""

    run: Callable[..., Run]
    release: Callable[..., int]


class _Held(NamedTuple):
    """A context, and the options with which it was made."""

    run: Run
    options: ContextInitOptions


class HeldContexts:
    """The contexts of a process, or of a part of it that needs its own; any number of threads may use it."""

    def __init__(self) -> None:
        self._held: dict[RunId, _Held] = {}
        self._stores: dict[str, Store] = {}
        self._sessions: dict[tuple[str, str], RunFactory] = {}
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    @synchronized
    def get_context(
        self,
        user_id: str,
        session_id: str,
        run_id: int,
        sub_id: int | None = None,
        options: ContextInitOptions | None = None,
    ) -> Run:
        """Return the context of a round and agent, made if needed; see `ContextFactory.get_context`."""
        # A new sub-agent uses the database of its main agent.
        known = self._held.get(RunId(user_id, session_id, run_id, sub_id or 0))
        options = _settled(options, known, is_new=sub_id is None)
        try:
            run = self._home(options.database_url, user_id, session_id).run(user_id, session_id, run_id, sub_id)
        except RefoldError:
            self._forget_empty(user_id, session_id)
            raise
        return self._kept(run, options)

    def _kept(self, run: Run, options: ContextInitOptions) -> Run:
        known = self._held.get(run.identity)
        # A run that began in a transaction that was rolled back is replaced by a new object.
        if known is None or known.run is not run:
            run.pre_workflow, run.post_workflow = options.pre_workflow, options.post_workflow
            self._held[run.identity] = _Held(run, options)
        return run

    def _home(self, url: str | None, user_id: str, session_id: str) -> _Home:
        if url is None:
            factory = self._sessions.setdefault((user_id, session_id), RunFactory())
            return _Home(factory.run, factory.release)
        store = self._stores.get(url)
        if store is None:
            store = self._stores[url] = open_store(url)
        return _Home(store.run, store.release_runs)

    def _forget_empty(self, user_id: str, session_id: str) -> None:
        if not any(identity[:2] == (user_id, session_id) for identity in self._held):
            self._sessions.pop((user_id, session_id), None)

    @synchronized
    def clear_context(self) -> None:
        """Release all contexts; see `ContextFactory.clear_context`."""
        for user_id, session_id in {identity[:2] for identity in self._held}:
            self.release_context(user_id, session_id)

    @synchronized
    def release_context(
        self, user_id: str, session_id: str, run_id: int | None = None, sub_id: int | None = None
    ) -> int:
        """Release some contexts and return how many; see `ContextFactory.release_context`."""
        wanted = (user_id, session_id, run_id, sub_id)
        leaving = [key for key in self._held if all(part in (None, own) for part, own in zip(wanted, key, strict=True))]
        for identity in leaving:
            held = self._held.pop(identity)
            self._home(held.options.database_url, user_id, session_id).release(*identity)
        self._forget_empty(user_id, session_id)
        return len(leaving)

    @synchronized
    def close(self) -> None:
        """Release all contexts and close their stores; see `ContextFactory.close`."""
        self.clear_context()
        while self._stores:
            self._stores.popitem()[1].close()


def _settled(given: ContextInitOptions | None, known: _Held | None, *, is_new: bool) -> ContextInitOptions:
    """Return the effective options: those of the first call; for a new sub-agent its own, with the same database."""
    if known is None:
        return given or ContextInitOptions()
    if given is None:
        return known.options
    url = known.options.database_url
    if given.database_url not in (None, url):
        raise InvalidInputError(
            f"{known.run.stream} was made with the database {url!r}, not {given.database_url!r}: release it first"
        )
    return replace(given, database_url=url) if is_new else known.options


class ContextFactory:
    """The contexts of this process, under the seed's names."""

    _contexts: ClassVar[HeldContexts] = HeldContexts()

    @classmethod
    def get_context(
        cls,
        user_id: str,
        session_id: str,
        run_id: int,
        sub_id: int | None = None,
        options: ContextInitOptions | None = None,
    ) -> Run:
        """
        Return the context of a round and agent, made if needed.

        `sub_id` 0 is the main agent; None is a new sub-agent with the next free number. The options of the first call
        apply; a sub-agent without options gets those of its main agent. The store of a database is opened once.

        Raises:
            InvalidInputError: a sub-agent has no main agent yet (a ValueError); a part of the identity or the database
                is invalid, or the database is another one than that of the context.
            StorageUnavailableError: the database cannot be reached, or is not one of Refold's.
        """
        return cls._contexts.get_context(user_id, session_id, run_id, sub_id, options)

    @classmethod
    def clear_context(cls) -> None:
        """Release all contexts: the next call makes new ones. A database keeps its events."""
        cls._contexts.clear_context()

    @classmethod
    def release_context(
        cls, user_id: str, session_id: str, run_id: int | None = None, sub_id: int | None = None
    ) -> int:
        """
        Release the contexts of a session, a round or one agent, and return how many there were.

        A database keeps its events. A detached session is gone with its last context.
        """
        return cls._contexts.release_context(user_id, session_id, run_id, sub_id)

    @classmethod
    def close(cls) -> None:
        """Release all contexts and close the stores that were opened for them."""
        cls._contexts.close()
