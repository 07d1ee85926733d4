"""Runs of agents as graphs: their events, rules, folded state and public classes."""

from __future__ import annotations

from .errors import NodeNotFoundError, RunStateError, UnknownAttributeError
from .factory import RunFactory
from .history import AttributeVersion, ChangedAttribute, NodeVersion, TrajectoryDiff
from .identity import RunId
from .nodes import (
    ActionNode,
    BaseIR,
    ColumnNode,
    DataNode,
    FileNode,
    KnowledgeNode,
    QueryNode,
    ScriptNode,
    SkillNode,
    StateNode,
    TableNode,
    ToolNode,
)
from .run import QueuedStep, ReadOnlyRun, Run
from .trajectory import Trajectory, TrajectoryEdge, TrajectoryNode

__all__ = [
    "ActionNode",
    "AttributeVersion",
    "BaseIR",
    "ChangedAttribute",
    "ColumnNode",
    "DataNode",
    "FileNode",
    "KnowledgeNode",
    "NodeNotFoundError",
    "NodeVersion",
    "QueryNode",
    "QueuedStep",
    "ReadOnlyRun",
    "Run",
    "RunFactory",
    "RunId",
    "RunStateError",
    "ScriptNode",
    "SkillNode",
    "StateNode",
    "TableNode",
    "ToolNode",
    "Trajectory",
    "TrajectoryDiff",
    "TrajectoryEdge",
    "TrajectoryNode",
    "UnknownAttributeError",
]
