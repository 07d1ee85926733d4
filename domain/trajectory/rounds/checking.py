"""What must hold of a round before a run can be made from it."""

from __future__ import annotations

from collections import Counter
from graphlib import CycleError, TopologicalSorter

from ...canonical import canonical_json, require_unicode
from ...errors import InvalidInputError
from ...seconds import require_time
from ..nodes import COMPUTATION, require_fields
from ..rules.registering import stored_fields
from ..state.attributes import DESCRIPTION
from .record import RoundNode, RoundRecord, names_in_round


def checked_round(record: RoundRecord) -> RoundRecord:
    """
    Return a round that a run can be made from.

    Raises:
        InvalidInputError: what is wrong with it, naming the node or the edge.
    """
    require_unicode(record.agent or "", "the agent")
    for node in record.nodes:
        _require_whole(node)
        _require_changes(node)
    _require_names(record)
    _require_ends(record)
    _require_acyclic(record)
    for index, message in enumerate(record.messages):
        canonical_json(message, what=f"message {index}")
    return record


def _require_whole(node: RoundNode) -> None:
    if not node.label:
        raise InvalidInputError(f"the label of the node {node.name!r} is empty: it is a text of at least one character")
    require_unicode(node.label, f"the label of the node {node.name!r}")
    fields = dict(node.attributes)
    description = fields.pop(DESCRIPTION, None)
    if not isinstance(description, str):
        raise InvalidInputError(f"the description of {node.name} is {description!r}: it is a text")
    require_unicode(description, f"the description of {node.name}")
    try:
        require_fields(node.type, fields)
    except InvalidInputError as error:
        raise InvalidInputError(f"the node {node.name!r} cannot be one: {error}") from error
    stored_fields(fields, node.name)
    _require_origin(node.actor, node.created_at, node.name)


def _require_changes(node: RoundNode) -> None:
    for number, change in enumerate(node.changes):
        what = f"change {number} of {node.name}"
        canonical_json(change.old, what=what)
        _require_origin(change.actor, change.at, what)
        require_unicode(change.model or "", f"the model of {what}")
        for name in change.old:
            if name not in node.attributes:
                raise InvalidInputError(f"{what} is of {name!r}, an attribute it does not have")


def _require_origin(actor: str | None, at: float | None, what: str) -> None:
    require_unicode(actor or "", f"the actor of {what}")
    if at is not None:
        require_time(at, f"the time of {what}")


def _require_names(record: RoundRecord) -> None:
    keys = [(node.type, node.label) for node in record.nodes]
    twice = [key for key, count in Counter(keys).items() if count > 1 and key[0] in COMPUTATION]
    if twice:
        raise InvalidInputError(f"it holds {twice[0][0]}({twice[0][1]}) more than once: only data can be met again")
    for node, name in zip(record.nodes, names_in_round(keys), strict=True):
        if node.name != name:
            raise InvalidInputError(
                f"it holds {node.name!r} where {name!r} would come: of several nodes of a name the newest comes last, "
                "without a number"
            )
    queries = [node.name for node in record.nodes if node.type == "Query"]
    if len(queries) > 1:
        raise InvalidInputError(f"it holds {len(queries)} queries, {', '.join(queries)}: a round has one")


def _require_ends(record: RoundRecord) -> None:
    names = {node.name for node in record.nodes}
    for edge in record.edges:
        require_unicode(edge.type, f"the type of the edge from {edge.source} to {edge.target}")
        for end in (edge.source, edge.target):
            if end not in names:
                raise InvalidInputError(
                    f"it holds an edge from {edge.source!r} to {edge.target!r}, and no node {end!r}"
                )
    for name in record.pointers - names:
        raise InvalidInputError(f"it holds the pointer {name!r}, and no such node")


def _require_acyclic(record: RoundRecord) -> None:
    sources: dict[str, list[str]] = {node.name: [] for node in record.nodes}
    for edge in record.edges:
        sources[edge.target].append(edge.source)
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        source, target = error.args[1][:2]
        raise InvalidInputError(
            f"its edges close a cycle, with that from {source!r} to {target!r}: a trajectory has none"
        ) from error
