"""
A store behind a gate: here it asks whether the caller may ask a question, for all its methods in one place.

The gate of the log (`domain/log/gate.py`) asks where contexts are opened, read and changed, so handles, views,
branches, subscriptions and recorders need nothing here. A method that is in neither of the two tables needs the
permission for everything, "admin".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

from ...domain.errors import NotFoundError
from ...domain.kinds import KINDS
from ...domain.log.gate import Action, Gate
from ...domain.trajectory.identity import RunId
from ...projections.lineage import LINEAGE
from ..context_streams import context_named
from ..queries.search import searched_in
from ..store import Store

Arguments = Mapping[str, Any]
# Returns the contexts that a call is about; None stands for the whole store.
Contexts = Callable[[Store, Arguments], list[str | None]]
EVERYTHING: list[str | None] = [None]


class Question(NamedTuple):
    """
    The permission that a method of the store needs: the action, and the contexts that the call is about.

    With `shows_taken` the contexts from which these took something count, too, such as the parent of a fork.
    """

    action: Action
    contexts: Contexts = lambda store, given: EVERYTHING
    shows_taken: bool = False

    def asked_for(self, store: Store, given: Arguments) -> Iterator[tuple[Action, str | None]]:
        """Yield what must be allowed for a call; the contexts that only rows name come last."""
        named = self.contexts(store, given)
        yield from ((self.action, context) for context in named)
        if self.shows_taken:
            sources = _taken_from(store, [context for context in named if context is not None])
            yield from ((self.action, context) for context in sources)


def _taken_from(store: Store, contexts: Sequence[str]) -> list[str]:
    """Return the contexts from which these took something, and those from which they did."""
    new, found = set(contexts), set[str]()
    while new:
        found |= new
        edges = store._runner.rows_under([LINEAGE], [f"{context}@" for context in sorted(new)])
        new = {edge.source for edge in edges} - found
    return sorted(found - {*contexts})


def _context_in(argument: str, kinds: tuple[str, ...] = KINDS) -> Contexts:
    """Return the context that an argument names; a name that no context has stays as it is given."""

    def contexts(store: Store, given: Arguments) -> list[str | None]:
        name = given.get(argument)
        if not isinstance(name, str):
            return EVERYTHING
        try:
            return [context_named(store._whole_log, name, kinds)]
        except NotFoundError:
            return [name]

    return contexts


def _subject(store: Store, given: Arguments) -> list[str | None]:
    """Return the context of an audit; nodes of runs may lie in several."""
    subject = given["subject"]
    is_node = isinstance(subject, str) and subject.endswith(")")
    return _run(store, given) if is_node else _context_in("subject")(store, given)


def _searched(store: Store, given: Arguments) -> list[str | None]:
    """Return the contexts that a search is in; one name may be that of several, of different kinds."""
    name, kind = given.get("context"), given.get("kind")
    if not isinstance(name, str):
        return EVERYTHING
    return list(searched_in(store._whole_log, name, kind)) or [name]


def _run(store: Store, given: Arguments) -> list[str | None]:
    """Return the run that is given whole; rounds and agents that are left out mean several."""
    parts = [given.get(name) for name in ("user_id", "session_id", "run_id", "sub_id")]
    return EVERYTHING if None in parts else [RunId(*parts).stream]  # type: ignore[arg-type]  # None is not in it


def _subscribed(store: Store, given: Arguments) -> list[str | None]:
    contexts = given.get("contexts")
    return EVERYTHING if contexts is None else list(contexts)


def _chat(store: Store, given: Arguments) -> list[str | None]:
    context = given.get("context")
    return EVERYTHING if context is None else [f"chat:{context}"]


QUESTIONS: dict[str, Question] = {
    "contexts": Question("search"),
    "find_contexts": Question("search"),
    "lineage": Question("search", _context_in("context")),
    "search": Question("search", _searched, shows_taken=True),
    "usage": Question("search", _context_in("context")),
    "rollup": Question("search"),
    "rows": Question("search"),
    "pending_approvals": Question("search"),
    "moments": Question("search"),
    "diff": Question("search"),
    "saved_states": Question("read", _chat),
    "validity": Question("read", _context_in("context_id", ("chat",))),
    "entries": Question("read", _context_in("context", ("queue", "pool")), shows_taken=True),
    "run_nodes": Question("read", _run),
    "run_edges": Question("read", _run),
    "run_graph": Question("read", _run),
    "subscribe": Question("read", _subscribed),
    "audit": Question("audit", _subject, shows_taken=True),
    "audit_node": Question("audit", _run, shows_taken=True),
    "why_gone": Question("audit", _context_in("context"), shows_taken=True),
    "prove": Question("audit", lambda store, given: [str(given["event"]).rpartition("@")[0]]),
}
# The methods that need no permission here, and why.
UNASKED: dict[str, str] = {
    **dict.fromkeys(
        ("chat", "queue", "pool", "window", "agent_context", "run"), "the gate asks when a context is opened"
    ),
    **dict.fromkeys(("memory", "at", "what_if"), "the gate asks when the contexts of the result are opened or read"),
    **dict.fromkeys(("adopt", "name_moment"), "the gate asks for the events that it records"),
    "transaction": "the gate asks for each change in it",
    "recorder": "the gate asks when it reads",
    "now": "a position says nothing of what is recorded",
    **dict.fromkeys(("flush", "aflush", "close"), "what was queued was asked for before"),
    "release_runs": "it lets go of objects of this process",
    "events_missed": "it is a number of faults",
    "on_folding": "it shows numbers of events, to whom works in this process",
}


class GatedStore(Store):
    """A store that asks its gate before it answers; `refold.open(..., allow=...)` returns one."""

    def close(self) -> None:
        """Close as a store does: the rest of lists that were handed out is read without asking the gate again."""
        gate: Gate = self.log.gate  # type: ignore[attr-defined]  # the log of a gated store has one
        with gate.inside():
            super().close()

    # Without a gate a store is of the class `Store`, so that this costs nothing there.
    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in UNASKED or not inspect.ismethod(found):
            return found
        question = QUESTIONS.get(name, Question("admin"))

        @wraps(found)
        def asked(*args: Any, **options: Any) -> Any:
            gate: Gate = self.log.gate  # type: ignore[attr-defined]  # the log of a gated store has one
            if not gate.is_inside:
                bound = inspect.signature(found).bind(*args, **options)
                given = bound.arguments
                if isinstance(given.get("contexts"), Iterator):
                    # It can be gone through once, and the call needs it, too.
                    given["contexts"] = [*given["contexts"]]
                for action, context in question.asked_for(self, given):
                    gate.ask(action, context)
                args, options = bound.args, bound.kwargs
            with gate.inside():
                return found(*args, **options)

        return asked
