"""
The events of runs.

A tag is kept for ever; a field is never renamed, retyped or reused, and a new one has a default. One event registers a
vertex of the graph, and all later events name the vertex by it (`refold.domain.spans`). So edges join versions of
nodes, and a node that is registered again is another vertex.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..canonical import canonical_json, parse_json
from ..context.decider import VersionNamed
from ..errors import InvalidInputError
from ..log.admission import Json, JsonObject, VersionNumber, one_of
from ..log.envelope import RecordedEvent, TaggedEvent
from ..spans import Ref, Segment
from .nodes import DESCRIPTION, NODE_TYPES, require_fields

QUEUES = ("pre", "todo", "post")
QUEUE = one_of(*QUEUES)
# The type of the node of a question; the event `QueryRegistered` does not name it.
QUERY = "Query"
MICROSECONDS = 1_000_000


class RunOpened(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.opened.v1"):
    """A run began: round `round` of a session, by its main agent (`sub` 0) or a sub-agent."""

    user: str | None = None
    session: str | None = None
    agent: str | None = None
    round: int = 0
    sub: int = 0
    source: str | None = None


class NodeEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """A vertex was added to the graph. `fields` is a JSON object: the fields its type requires, and further ones."""

    label: str
    description: str = ""
    fields: JsonObject
    created_at: float

    def require_admissible(self) -> None:
        """Raise InvalidInputError where a required field is missing."""
        require_fields(type_of(self), parse_json(self.fields) or {})


class QueryRegistered(NodeEvent, frozen=True, kw_only=True, gc=False, tag="run.query_registered.v1"):
    """The question of the round; it is a pointer from the start."""


class NodeRegistered(NodeEvent, frozen=True, kw_only=True, gc=False, tag="run.node_registered.v1"):
    """
    A node of type `type`, with an edge of type `edge` from each of `sources`.

    The nodes in `left` are no longer pointers; the new node is one if `is_pointer`.
    """

    type: Annotated[str, one_of(*NODE_TYPES)]
    sources: tuple[Ref, ...] = ()
    edge: str = ""
    left: tuple[Ref, ...] = ()
    is_pointer: bool = False


class AttributeChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An attribute before and after, as canonical JSON."""

    name: str
    old: Json
    new: Json

    def require_admissible(self) -> None:
        """Raise InvalidInputError where a value is missing, or a description is not a text."""
        if not self.old or not self.new:
            raise InvalidInputError(f"{self.name!r} has no value before or after the change")
        if self.name == DESCRIPTION and not isinstance(parse_json(self.new), str):
            raise InvalidInputError("a description is a text")


class NodeChanged(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.node_changed.v1"):
    """
    Attributes of a node were changed; `made_at` is the time of the change if it is earlier than the recording (an
    import).
    """

    node: Ref
    changes: tuple[AttributeChange, ...]
    made_at: float | None = None


class NodeRemoved(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.node_removed.v1"):
    """A node and its edges were removed from the graph; if it was a pointer, the nodes in `joined` became pointers."""

    node: Ref
    joined: tuple[Ref, ...] = ()
    reason: str | None = None


class EdgeAdded(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.edge_added.v1"):
    """An edge was added between two present vertices."""

    source: Ref
    target: Ref
    edge: str


class PointersMoved(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.pointers_moved.v1"):
    """The nodes in `left` are no longer pointers; those in `joined` are pointers now."""

    left: tuple[Ref, ...] = ()
    joined: tuple[Ref, ...] = ()


class RoundsRestored(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.rounds_restored.v1"):
    """The graph goes back over these earlier rounds, oldest first, each as of a version of its stream."""

    rounds: tuple[Segment, ...]


class PortraitRequested(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.portrait_requested.v1"):
    """A model was asked to describe a node."""

    node: Ref
    model: str | None = None


class PortraitWritten(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.portrait_written.v1"):
    """A model described a node whose description was empty; `made_at` as for `NodeChanged`."""

    node: Ref
    description: str
    model: str | None = None
    made_at: float | None = None

    @property
    def changes(self) -> tuple[AttributeChange, ...]:
        """The change of the description, in the form that `NodeChanged` has."""
        return (AttributeChange(DESCRIPTION, b'""', canonical_json(self.description, what="a description")),)


class PortraitFailed(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.portrait_failed.v1"):
    """A model did not describe a node; the description stays empty, and a model can be asked again."""

    node: Ref
    error: str


class PortraitDiscarded(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.portrait_discarded.v1"):
    """A model described a node that somebody else had described or removed in the meantime."""

    node: Ref
    description: str


class StepQueued(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.step_queued.v1"):
    """A step was queued in `pre`, `todo` or `post`; `params` is JSON, empty where no parameters were given."""

    queue: Annotated[str, QUEUE]
    name: str
    params: Json = b""


class StepTaken(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.step_taken.v1"):
    """The oldest step of a queue was taken; `step` is the version that queued it."""

    queue: Annotated[str, QUEUE]
    step: VersionNumber


class StepReturned(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.step_returned.v1"):
    """A step that had been taken was put back: it is the first of its queue again."""

    queue: Annotated[str, QUEUE]
    step: VersionNumber


class StepRefused(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.step_refused.v1"):
    """A step was refused because its queue had `capacity` steps already."""

    queue: Annotated[str, QUEUE]
    name: str
    params: Json = b""
    capacity: int


class StepsCleared(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.steps_cleared.v1"):
    """All steps were removed from these queues."""

    queues: tuple[Annotated[str, QUEUE], ...]


class MessageRecorded(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.message_recorded.v1"):
    """A message of the dialogue; `record` is JSON."""

    record: JsonObject

    def require_admissible(self) -> None:
        """Raise InvalidInputError where there is no message."""
        if not self.record:
            raise InvalidInputError("a message that is recorded is a JSON object")


class RunNamed(VersionNamed, frozen=True, kw_only=True, gc=False, tag="run.named.v1"):
    """A version of a run was named."""


class RunClosed(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="run.closed.v1"):
    """The run was closed: no nodes, pointers or steps follow; portraits and corrections may."""

    reason: str | None = None


RunEvent = (
    RunOpened
    | QueryRegistered
    | NodeRegistered
    | NodeChanged
    | NodeRemoved
    | EdgeAdded
    | PointersMoved
    | RoundsRestored
    | PortraitRequested
    | PortraitWritten
    | PortraitFailed
    | PortraitDiscarded
    | StepQueued
    | StepTaken
    | StepReturned
    | StepRefused
    | StepsCleared
    | MessageRecorded
    | RunNamed
    | RunClosed
)


def type_of(event: NodeEvent) -> str:
    """Return the type of the node that an event registered."""
    return event.type if isinstance(event, NodeRegistered) else QUERY


def made_at(recorded: RecordedEvent) -> float:
    """Return when an event was made, in seconds since 1970; for an import this is before its recording."""
    event = recorded.event
    given = event.created_at if isinstance(event, NodeEvent) else getattr(event, "made_at", None)
    return recorded.recorded_at / MICROSECONDS if given is None else float(given)
