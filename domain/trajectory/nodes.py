"""
The ten types of nodes, a node of each type as it is shown, and the errors of runs.

A node is a value: its lists and dicts are frozen, and equal to plain ones. It has the fields that its type requires;
all other fields are in `extra`. A new field is one of those, since stored nodes have no value of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from dataclasses import field as field_of
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import DecisionRefusedError, InvalidInputError, NotFoundError
from ..frozen import FrozenDict

# The attribute that every node has besides the fields of its type.
DESCRIPTION = "description"
NAME = re.compile(r"(?P<type>[^()]+)\((?P<label>.*)\)(?:#(?P<number>[1-9][0-9]{0,17}))?", re.DOTALL)


class NodeNotFoundError(NotFoundError, ValueError):
    """No such node; a ValueError as well."""


class RunStateError(DecisionRefusedError, RuntimeError):
    """The run is not at the point where that can be done; a RuntimeError as well."""


class UnknownAttributeError(InvalidInputError, AttributeError):
    """A node of this type has no such attribute, or none that can be changed; an AttributeError as well."""


class NodeName(NamedTuple):
    """The parts of a node's name; `number` is None for the newest vertex of that name."""

    type: str
    label: str
    number: int | None = None


def node_name(node_type: str, label: str, number: int | None = None) -> str:
    """Return the name of a node."""
    name = f"{node_type}({label})"
    return name if number is None else numbered_name(name, number)


def numbered_name(name: str, number: int) -> str:
    """Return the name of one of several vertices with the same plain name."""
    return f"{name}#{number}"


def parse_node_name(name: str) -> NodeName:
    """
    Return the parts of a name.

    Raises:
        InvalidInputError: it is not of the form `Type(label)`.
    """
    found = NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidInputError(f"Graph node label {name!r} has illegal format: `Type(label)` is right.")
    return NodeName(found["type"], found["label"], int(found["number"]) if found["number"] else None)


@dataclass(frozen=True, kw_only=True)
class BaseIR:
    """
    The fields of every node: `label` is its identity within its type, `run_id` the round.

    `created_at` is in seconds since 1970, UTC. `history` has the old values of the changed attributes before each
    change, numbered from 0; `run.history` has more.
    """

    label: str
    description: str
    session_id: str
    run_id: int
    created_at: float
    history: Mapping[int, Mapping[str, Any]] = field_of(default_factory=FrozenDict)
    extra: Mapping[str, Any] = field_of(default_factory=FrozenDict)

    if TYPE_CHECKING:
        # For fields like `run.node(table).path`: a type checker cannot know the type of a node from its name, so it
        # takes the fields of all types, and no others.
        query = additional_files = state = action = params = output = success = property()
        knowledge_type = knowledge_content = tool_params = tool_returns = path = from_table = values = property()
        supplementary_schemas = source = script_content = script_type = related_data_list = property()

    def get_schema(self) -> dict[str, str]:
        """Return label and description."""
        return {"label": self.label, "description": self.description}

    def get_full_content(self) -> dict[str, Any]:
        """Return all fields."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, kw_only=True)
class QueryNode(BaseIR):
    """A question of the user."""

    query: Any
    additional_files: Any


@dataclass(frozen=True, kw_only=True)
class StateNode(BaseIR):
    """A conclusion of the agent."""

    state: Any


@dataclass(frozen=True, kw_only=True)
class ActionNode(BaseIR):
    """A call of a tool."""

    action: Any
    params: Any
    output: Any
    success: Any


@dataclass(frozen=True, kw_only=True)
class DataNode(BaseIR):
    """An object that was found or made: it can be met again in later rounds of its session."""


@dataclass(frozen=True, kw_only=True)
class KnowledgeNode(DataNode):
    """A snippet of knowledge."""

    knowledge_type: Any
    knowledge_content: Any


@dataclass(frozen=True, kw_only=True)
class ToolNode(DataNode):
    """The definition of a tool."""

    tool_params: Any
    tool_returns: Any


@dataclass(frozen=True, kw_only=True)
class TableNode(DataNode):
    """A table of data."""

    path: Any


@dataclass(frozen=True, kw_only=True)
class ColumnNode(DataNode):
    """A column of a table."""

    from_table: Any
    values: Any
    supplementary_schemas: Any


@dataclass(frozen=True, kw_only=True)
class FileNode(DataNode):
    """A file."""

    path: Any
    source: Any


@dataclass(frozen=True, kw_only=True)
class ScriptNode(DataNode):
    """A script."""

    script_content: Any
    script_type: Any
    path: Any
    related_data_list: Any


@dataclass(frozen=True, kw_only=True)
class SkillNode(DataNode):
    """A skill package."""

    path: Any


COMPUTATION: dict[str, type[BaseIR]] = {"Query": QueryNode, "State": StateNode, "Action": ActionNode}
DATA: dict[str, type[BaseIR]] = {
    "Knowledge": KnowledgeNode,
    "Tool": ToolNode,
    "Table": TableNode,
    "Column": ColumnNode,
    "File": FileNode,
    "Script": ScriptNode,
    "Skill": SkillNode,
}
NODE_TYPES = COMPUTATION | DATA
_SHARED = {one.name for one in fields(BaseIR)}
_OWN = {name: tuple(one.name for one in fields(cls) if one.name not in _SHARED) for name, cls in NODE_TYPES.items()}


def own_fields(node_type: str) -> tuple[str, ...]:
    """
    Return the names of the fields that a type requires.

    Raises:
        InvalidInputError: there is no such type.
    """
    if not isinstance(node_type, str) or node_type not in _OWN:
        raise InvalidInputError(f"there is no node type {node_type!r}: it is one of {', '.join(NODE_TYPES)}")
    return _OWN[node_type]


def require_fields(node_type: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidInputError where a field that the type requires is missing."""
    missing = [name for name in own_fields(node_type) if name not in given]
    if missing:
        raise InvalidInputError(f"A {node_type} node must contain info about '{missing}'.")
