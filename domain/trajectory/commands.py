"""
The commands of a run.

They name nodes as callers do. A name is looked up when the command is decided. So if another writer came first, the
command is decided again on the graph with that writer's changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..context.decider import NameVersion
from ..spans import Ref
from .events import RoundsRestored, RunOpened
from .state import PastRound


class Begin(msgspec.Struct, frozen=True):
    """Open the run."""

    event: RunOpened


class RegisterQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Register the question of the round."""

    fields: Mapping[str, Any]
    created_at: float
    label: str | None = None
    description: str | None = None


class RegisterNode(msgspec.Struct, frozen=True, kw_only=True):
    """Register a node with edges from other nodes; see `Run.register_node`."""

    type: str
    description: str
    predecessors: tuple[str, ...]
    fields: Mapping[str, Any]
    created_at: float
    edge: str | None = None
    label: str | None = None
    add_pointer: bool = False
    remove_pointers: bool = False


class ImportNode(msgspec.Struct, frozen=True, kw_only=True):
    """Register a query or a node as it was elsewhere: with edges from `sources`, if any, and all its attributes."""

    type: str
    label: str
    description: str
    fields: Mapping[str, Any]
    created_at: float
    sources: tuple[Ref, ...] = ()
    edge: str = ""


class ModifyNode(msgspec.Struct, frozen=True):
    """Change attributes of a node; `made_at` is the time of the change, if it is not now."""

    name: str
    changes: Mapping[str, Any]
    made_at: float | None = None


class RemoveNode(msgspec.Struct, frozen=True):
    """Remove a node from the graph."""

    name: str
    reason: str | None = None


class AddEdge(msgspec.Struct, frozen=True):
    """Add an edge between two present nodes."""

    source: str
    target: str
    edge: str | None = None


class MovePointers(msgspec.Struct, frozen=True):
    """Make the nodes in `joined` pointers; those in `left` are no longer pointers."""

    left: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()


class RestoreRounds(msgspec.Struct, frozen=True):
    """Make the graph go back over earlier rounds; `past` is their content."""

    event: RoundsRestored
    past: tuple[PastRound, ...]


class RequestPortrait(msgspec.Struct, frozen=True):
    """Record that a model is asked for the description of a vertex."""

    node: Ref
    model: str | None = None


class WritePortrait(msgspec.Struct, frozen=True):
    """
    Record a model's answer as the description of a vertex, if that is still empty; `made_at` as for `ModifyNode`.

    `erasures` is the version of the erasures (`erasure.foreign_erasures`) at which the texts for the model were read.
    """

    node: Ref
    description: str
    model: str | None = None
    made_at: float | None = None
    erasures: int | None = None


class FailPortrait(msgspec.Struct, frozen=True):
    """Record that a model gave no description of a vertex; `erasures` as for `WritePortrait`."""

    node: Ref
    error: str
    erasures: int | None = None


class Step(msgspec.Struct, frozen=True):
    """A step to be queued: its name, and its parameters as JSON."""

    name: str
    params: bytes = b""


class QueueStep(msgspec.Struct, frozen=True):
    """Put a step at the end of a queue, if the queue has fewer than `capacity` steps."""

    queue: str
    step: Step
    capacity: int


class LoadSteps(msgspec.Struct, frozen=True):
    """Clear some queues and fill them again."""

    queues: Mapping[str, tuple[Step, ...]]
    capacity: int


class TakeStep(msgspec.Struct, frozen=True):
    """Take the next step of a queue."""

    queue: str


class ReturnStep(msgspec.Struct, frozen=True):
    """Put a taken step back; `step` is the version that queued it."""

    step: int


class ClearSteps(msgspec.Struct, frozen=True):
    """Remove all steps from some queues."""

    queues: tuple[str, ...]


class RecordMessages(msgspec.Struct, frozen=True):
    """Record messages of the dialogue, each as JSON."""

    records: tuple[bytes, ...]


class Close(msgspec.Struct, frozen=True):
    """End the run."""

    reason: str | None = None


# The commands that are decided on the graph.
GraphCommand = (
    RegisterQuery
    | RegisterNode
    | ImportNode
    | ModifyNode
    | RemoveNode
    | AddEdge
    | MovePointers
    | RequestPortrait
    | WritePortrait
    | FailPortrait
)
Command = (
    GraphCommand
    | Begin
    | RestoreRounds
    | QueueStep
    | LoadSteps
    | TakeStep
    | ReturnStep
    | ClearSteps
    | RecordMessages
    | Close
    | NameVersion
)
