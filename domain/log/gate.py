"""
Permissions: a function of the user's is asked before a context or the store is read or changed.

A `Gate` stands in front of a log (`GatedLog`). It is asked about each event when the event is decided, by what the
event does: so no way of recording avoids it. It is asked about reading where a state or an event is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Literal, TypeVar, get_args

from ..errors import ActorMissingError, ConcurrencyError, InvalidInputError, NotAllowedError, RefusedError
from ..redaction import Redact, redacted
from .envelope import Event, acting_actor
from .ports import Log, NewEvents

Action = Literal[
    "read", "search", "audit", "export", "open", "append", "edit", "approve", "fork", "merge", "erase", "admin"
]
ACTIONS: tuple[str, ...] = get_args(Action)
# Returns whether an actor may do something; an actor of None was not set, a context of None means the whole store.
Allow = Callable[[str | None, str, str | None], object]
# These change nothing, so that they need no actor.
LOOKING = frozenset({"read", "search", "audit", "export", "open"})
Acting = Literal["optional", "required"]
L = TypeVar("L", bound=Log)
T = TypeVar("T")

# Every event has the tag of its kind of context in front. Those that are not named here are edits.
_ACTION_OF: dict[str, Action] = {
    "opened": "open",
    "forked": "fork",
    "branched": "fork",
    "merged": "merge",
    "conflict_resolved": "merge",
    "call_approved": "approve",
    "call_rejected": "approve",
    "call_changed": "approve",
    "erased": "erase",
    "copied": "admin",
    **dict.fromkeys(
        (
            "added", "appended", "remembered", "message_added", "message_extended", "message_finished",
            "message_recorded", "function_called", "function_returned", "handed_off", "config_updated", "state_saved",
            "approval_requested", "query_registered", "node_registered", "edge_added", "rounds_restored",
            "portrait_requested", "portrait_written", "portrait_failed", "step_queued", "step_taken", "step_returned",
            "step_refused",
        ),
        "append",
    ),
}  # fmt: skip


def action_of(event: Event | type[Event]) -> Action:
    """Return the action that an event, or every event of a class, stands for."""
    tag = str(event.__struct_config__.tag)
    return _ACTION_OF.get(tag.split(".")[1] if "." in tag else tag, "edit")


class Gate:
    """
    Asks `allow`, if there is one, and requires an actor of every change if `needs_actor`.

    `redact` is the hook of the store: it gets each text that leaves the program.
    """

    def __init__(self, allow: Allow | None, *, needs_actor: bool, redact: Redact | None = None) -> None:
        self._allow, self._needs_actor, self.redact = allow, needs_actor, redact

    def ask(self, action: Action, context: str | None = None) -> None:
        """
        Return if the present actor may do this; within a call that was allowed, nobody is asked.

        Raises:
            NotAllowedError: no.
        """
        if self._needs_actor and action not in LOOKING and acting_actor() is None:
            raise ActorMissingError(action, context)
        if not self.is_inside:
            self.require(action, context)

    def admit(self, new: NewEvents) -> None:
        """
        Return if the actor of each event may record it, and may read or fork the contexts that it takes items from.

        Raises:
            NotAllowedError: no.
        """
        if self._needs_actor and new.events and acting_actor() is None:
            raise ActorMissingError(action_of(new.events[0]), new.stream)
        if self._allow is None:
            return
        asked = {
            (meta.actor, action, context): None
            for event, meta in zip(new.events, new.metas, strict=True)
            for action, context in _asked_for(event, new.stream)
        }
        for actor, action, context in asked:
            self._require(actor, action, context)

    def require(self, action: Action, context: str | None) -> None:
        """
        Ask, also within a call that was allowed.

        Raises:
            NotAllowedError: the present actor may not do this.
        """
        if self._allow is not None:
            self._require(acting_actor(), action, context)

    @contextmanager
    def changing(self, stream: str) -> Iterator[None]:
        """Carry out a change in the block; who may not read the context gets no error that reveals its state."""
        with self.inside():
            try:
                yield
            except NotAllowedError:
                raise
            except (RefusedError, ConcurrencyError):
                self.require("read", stream)
                raise

    def _require(self, actor: str | None, action: Action, context: str | None) -> None:
        assert self._allow is not None
        # The function may look something up in the store that it guards.
        with self.inside():
            answer = self._allow(actor, action, context)
        # Only True allows: a coroutine, which an async function returns by mistake, is true as well.
        if answer is not True:
            if not isinstance(answer, bool | None):
                raise InvalidInputError(f"allow() returned {type(answer).__name__}: return True or False")
            raise NotAllowedError(actor, action, context)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Ask nobody within the block, which carries out a call that was allowed."""
        token = _INSIDE.set(self)
        try:
            yield
        finally:
            _INSIDE.reset(token)

    @contextmanager
    def opening(self, context: str) -> Iterator[None]:
        """Ask, then open a context in the block, as one call that was allowed."""
        self.ask("open", context)
        with self.inside():
            yield

    @property
    def is_inside(self) -> bool:
        """Whether this flow of control carries out a call that was allowed."""
        return _INSIDE.get() is self


# The gate behind which a call is carried out. It follows the flow of control.
_INSIDE: ContextVar[Gate | None] = ContextVar("refold_inside", default=None)
_NOBODY_ASKED: AbstractContextManager[None] = nullcontext()


def _asked_for(event: Event, stream: str) -> Iterator[tuple[Action, str]]:
    """Yield what must be allowed for an event, each with its context."""
    action = action_of(event)
    if action == "fork":
        yield "fork", getattr(event, "parent", stream)
        yield "open", stream
        return
    yield action, stream
    for other in _read_from(event):
        yield "read", other


def _read_from(event: Event) -> Iterator[str]:
    """Yield the contexts whose items an event brings into its own."""
    source = getattr(event, "source", None)
    if "source" in getattr(event, "STREAM_FIELDS", ()) and source is not None:
        yield source
    for earlier in getattr(event, "rounds", ()):
        yield earlier.stream


def gate_of(log: Log) -> Gate | None:
    """Return the gate in front of a log, if there is one."""
    found: Gate | None = getattr(log, "gate", None)
    return found


def leaving(value: T, log: Log) -> T:
    """Return plain data of a log as they may leave the program: with the texts that its hooks return."""
    left: T = redacted(value, hook_of(log))
    return left


def hook_of(log: Log) -> Redact | None:
    """Return the hook of the store that a log belongs to, if it has one."""
    gate = gate_of(log)
    return None if gate is None else gate.redact


def behind_gate(log: L) -> L:
    """Return the log behind the gate, for calls that are allowed already; a log without a gate is returned itself."""
    found: L = getattr(log, "behind_gate", log)
    return found


def opening_allowed(log: Log, stream: str) -> AbstractContextManager[None]:
    """Return a block in which a context is opened; it begins with a NotAllowedError if that is not allowed."""
    gate = gate_of(log)
    return _NOBODY_ASKED if gate is None else gate.opening(stream)
