"""When a model may describe a node, and what becomes of its answer (SPEC D10)."""

from __future__ import annotations

from ...canonical import require_unicode
from ...spans import Ref
from ..events import PortraitDiscarded, PortraitFailed, PortraitRequested, PortraitWritten
from ..nodes import DATA
from ..state.attributes import description_of
from ..state.graph import RunGraph
from .commands import FailPortrait, RequestPortrait, WritePortrait


def is_undescribed(graph: RunGraph, ref: Ref) -> bool:
    """Return whether a vertex is data, in the graph, and without a description."""
    return graph.is_there(ref) and graph.type_of(ref) in DATA and not description_of(graph, ref)


def requested(command: RequestPortrait, graph: RunGraph) -> list[PortraitRequested]:
    """Return the event that a model is asked; none where nobody needs to."""
    if not is_undescribed(graph, command.node):
        return []
    return [PortraitRequested(node=command.node, model=command.model)]


def written(command: WritePortrait, graph: RunGraph) -> PortraitWritten | PortraitDiscarded:
    """
    Return the event that takes an answer, or the one that it came too late for.

    Raises:
        InvalidInputError: the answer is no Unicode text.
    """
    description = require_unicode(command.description, "the description")
    if is_undescribed(graph, command.node):
        return PortraitWritten(node=command.node, description=description, model=command.model, made_at=command.made_at)
    return PortraitDiscarded(node=command.node, description=description)


def failed(command: FailPortrait, _graph: RunGraph) -> PortraitFailed:
    """Return the event that a model gave no answer."""
    return PortraitFailed(node=command.node, error=command.error.encode(errors="replace").decode())
