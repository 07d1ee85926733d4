"""
The seed's context and its factory: one context for each round and agent in a process, kept until it is released.

A context is a run that also has the seed's names for its files, its queues and its graphs. It belongs to the store at
the database that the options name; without one it is detached. The runs of a detached session share a log in memory,
which is gone when the last of them is released.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

from ..domain.concurrency.locks import renew_in_child, synchronized
from ..domain.errors import InvalidInputError, RefoldError
from ..domain.trajectory.factory import RunFactory
from ..domain.trajectory.html_page import to_html
from ..domain.trajectory.identity import RunId
from ..domain.trajectory.nodes import BaseIR, NodeNotFoundError, parse_node_name
from ..domain.trajectory.run import STEPS_MAX, Run
from .files import replace_files
from .open import open_store
from .round_files import import_missing_rounds, write_graph_file, write_meta_file
from .round_files import load_meta_from_json as read_meta
from .store import Store


@dataclass(frozen=True, slots=True)
class ContextInitOptions:
    """
    The database of a context, the steps with which `init_todolist()` fills its queues, and the folder of its files.

    `database_url` is a location for `refold.open`: a URL, a path, or ":memory:". A step is a name, or a dict with
    `name`. `workspace` is the folder of the session; by default it is `sessions/USER/SESSION` in the current folder.
    """

    database_url: str | None = None
    pre_workflow: tuple[str | Mapping[str, Any], ...] = ()
    post_workflow: tuple[str | Mapping[str, Any], ...] = ()
    workspace: str | os.PathLike[str] | None = None


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


@dataclass
class TodoNode:
    """A step of a queue."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)


class TodoListManager:
    """
    The queues `pre`, `todo` and `post` under the seed's names: those of a context, or of a run in memory.

    `prelist`, `todolist` and `postlist` are copies of the queues; `maxlen` is the maximum number of steps in each.
    """

    def __init__(
        self,
        maxlen: int = STEPS_MAX,
        *,
        pre_workflow: Sequence[str | Mapping[str, Any]] | None = None,
        post_workflow: Sequence[str | Mapping[str, Any]] | None = None,
    ) -> None:
        self._run = RunFactory().run("todo", "list")
        self._run.steps_max = maxlen
        self._run.pre_workflow, self._run.post_workflow = pre_workflow or (), post_workflow or ()

    @classmethod
    def of(cls, run: Run) -> TodoListManager:
        """Return the manager of the queues of a run."""
        made = cls.__new__(cls)
        made._run = run
        return made

    @property
    def prelist(self) -> deque[TodoNode]:
        """The steps before the main loop."""
        return self._steps("pre")

    @property
    def todolist(self) -> deque[TodoNode]:
        """The steps of the main loop."""
        return self._steps("todo")

    @property
    def postlist(self) -> deque[TodoNode]:
        """The steps after the main loop."""
        return self._steps("post")

    def _steps(self, list_type: str) -> deque[TodoNode]:
        return deque((TodoNode(**step) for step in self._run.steps(list_type)), self._run.steps_max)

    def init_todolist(self) -> None:
        """Clear the queues `pre` and `post`, and fill them from the workflows; see `Run.init_todolist`."""
        self._run.init_todolist()

    def add_node(self, node: TodoNode | Mapping[str, Any], list_type: str = "todo") -> bool:
        """
        Put a step at the end of a queue, and return whether there was room.

        Raises:
            InvalidInputError: no such queue, or it is no step (a ValueError).
        """
        step = node if isinstance(node, Mapping) else getattr(node, "__dict__", {})
        return self._run.append_todo(step.get("name", ""), step.get("params"), list_type)

    def pop_node(self, list_type: str = "todo") -> TodoNode | None:
        """
        Take the oldest step of a queue; None from an empty queue.

        Raises:
            InvalidInputError: no such queue (a ValueError).
        """
        step = self._run.pop_todo(list_type)
        return None if step is None else TodoNode(**step)


class Context(Run):
    """
    A run with the seed's names for its queries, files, queues and graphs; `ContextFactory` makes it.

    A graph is a networkx DiGraph here: the extra `refold[graph]` brings networkx.
    """

    _session_root: Path
    _factory: RunFactory
    _is_restored = False

    @property
    def initial_pt(self) -> str | None:
        """The name of this round's query: `initial`."""
        return self.initial

    @property
    def has_initial_pt(self) -> bool:
        """Whether this round has a query."""
        return self.initial is not None

    @property
    def session_root_pt(self) -> str | None:
        """The name of the session's first query: `session_root`."""
        return self.session_root

    @property
    def restored(self) -> bool:
        """Whether the graph goes back over earlier rounds, or `restore_previous_runs` found none."""
        return self._is_restored or bool(self.rounds)

    @property
    def todolist_manager(self) -> TodoListManager:
        """The manager of the three queues."""
        return TodoListManager.of(self)

    def restore_previous_runs(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        current_run_id: int | None = None,
        sub_id: int | None = None,
    ) -> list[int]:
        """
        Make the graph go back over the earlier rounds; a round that is not in the log is imported from its files.

        See `Run.restore_previous_runs`. A file that cannot be read is skipped, with a warning.
        """
        until = self.run_id if current_run_id is None else min(current_run_id, self.run_id)
        agent = self.sub_id if sub_id is None else sub_id
        if (user_id or self.user_id, session_id or self.session_id) == self.identity[:2]:
            current = self.identity._replace(run_id=until, sub_id=agent)
            import_missing_rounds(self._factory, self._attachment.log, self._session_root, current)
        found = super().restore_previous_runs(
            user_id=user_id, session_id=session_id, current_run_id=current_run_id, sub_id=sub_id
        )
        self._is_restored = True
        return found

    def get_IR_from_node(self, graph_node_label: str) -> BaseIR:
        """Return a node; an unknown one is named as the seed names it."""
        try:
            return self.node(graph_node_label)
        except NodeNotFoundError as error:
            name = parse_node_name(graph_node_label)
            raise NodeNotFoundError(f"Cannot get IR with name {name.label!r} of type {name.type!r}.") from error

    def get_historical_trajectory(self, run_id: int) -> Any:
        """Return the graph of an earlier round alone, or None if it was not restored."""
        return self.get_all_historical_trajectories().get(run_id)

    def get_all_historical_trajectories(self) -> dict[int, Any]:
        """Return the graphs of the earlier rounds, each alone, by number."""
        return {number: graph.to_networkx() for number, graph in super().get_all_historical_trajectories().items()}

    def persist_to_json(self) -> str:
        """Write the file of this round's graph into the session's folder, and return its path."""
        return str(write_graph_file(self, self._session_root))

    def persist_meta_to_json(self) -> str:
        """Write the file beside the graph, with query, pointers and messages, and return its path."""
        return str(write_meta_file(self, self._session_root))

    def persist_to_pg(self) -> None:
        """Wait until the queued events of the run are committed: `flush`. Each call is an event of the log already."""
        self.flush()

    @staticmethod
    def load_meta_from_json(
        user_id: str, session_id: str, run_id: int, sub_id: int = 0, workspace: str | os.PathLike[str] | None = None
    ) -> dict[str, Any]:
        """Return the content of the file beside the graph of a round; empty where it cannot be read."""
        return read_meta(_session_root(workspace, user_id, session_id), run_id, sub_id)

    def show(self, output_html: str | os.PathLike[str] | None = None) -> None:
        """Write the graph as a page of HTML; by default beside the file of the graph."""
        path = self._session_root / ".context" / f"Run{self.run_id}_Sub{self.sub_id}.html"
        title = f"{self.user_id}, {self.session_id}, round {self.run_id}"
        replace_files({Path(output_html or path): to_html(self.graph(), title).encode()})


def _session_root(workspace: str | os.PathLike[str] | None, user_id: str, session_id: str) -> Path:
    if workspace is not None:
        return Path(workspace).expanduser()
    # Each name is one folder, whatever its characters; quote leaves "." and "..", which are no names of folders.
    user, session = (quote(name, safe="").replace(".", "%2E") for name in (user_id, session_id))
    return Path("sessions", user, session)


class _Held(NamedTuple):
    """A context, and the options with which it was made."""

    run: Context
    options: ContextInitOptions


class HeldContexts:
    """The contexts of a process, or of a part of it that needs its own; any number of threads may use it."""

    def __init__(self) -> None:
        self._held: dict[RunId, _Held] = {}
        self._stores: dict[str, tuple[Store, RunFactory]] = {}
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
    ) -> Context:
        """Return the context of a round and agent, made if needed; see `ContextFactory.get_context`."""
        wanted, main = RunId(user_id, session_id, run_id, sub_id or 0), RunId(user_id, session_id, run_id, 0)
        # A new sub-agent uses the database of its main agent, whether its number is given or not.
        is_new = sub_id is None or wanted not in self._held
        options = _settled(options, self._held.get(main if is_new else wanted), is_new=is_new)
        try:
            factory = self._runs(options.database_url, user_id, session_id)
            run = factory.run(user_id, session_id, run_id, sub_id)
        except RefoldError:
            self._forget_empty(user_id, session_id)
            raise
        assert isinstance(run, Context)
        known = self._held.get(run.identity)
        # A run that began in a transaction that was rolled back is replaced by a new object.
        if known is None or known.run is not run:
            run.pre_workflow, run.post_workflow = options.pre_workflow, options.post_workflow
            run._session_root, run._factory = _session_root(options.workspace, user_id, session_id), factory
            self._held[run.identity] = _Held(run, options)
        return run

    def _runs(self, url: str | None, user_id: str, session_id: str) -> RunFactory:
        if url is None:
            return self._sessions.setdefault((user_id, session_id), RunFactory(runs=Context))
        if url not in self._stores:
            store = open_store(url)
            self._stores[url] = store, RunFactory(store._attachment(None), Context)
        return self._stores[url][1]

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
            self._runs(held.options.database_url, user_id, session_id).release(*identity)
        self._forget_empty(user_id, session_id)
        return len(leaving)

    @synchronized
    def close(self) -> None:
        """Release all contexts and close their stores; see `ContextFactory.close`."""
        self.clear_context()
        while self._stores:
            self._stores.popitem()[1][0].close()


def _settled(given: ContextInitOptions | None, known: _Held | None, *, is_new: bool) -> ContextInitOptions:
    """Return the effective options: those of the first call; for a new sub-agent its own, with the same database."""
    if known is None:
        return given or ContextInitOptions()
    if given is None:
        return known.options
    url = known.options.database_url
    if given.database_url not in (None, url):
        # A URL may hold a password, so it is not repeated.
        raise InvalidInputError(f"{known.run.stream_id} was made with another database, or with none: release it first")
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
    ) -> Context:
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
