"""Runs of agents as graphs, under the names of their seed where it has some: an import moves code over."""

from __future__ import annotations

from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.history import AttributeVersion, ChangedAttribute, NodeVersion, TrajectoryDiff
from refold.domain.trajectory.identity import RunId
from refold.domain.trajectory.nodes import (
    ActionNode,
    BaseIR,
    ColumnNode,
    DataNode,
    FileNode,
    KnowledgeNode,
    NodeNotFoundError,
    QueryNode,
    RunStateError,
    ScriptNode,
    SkillNode,
    StateNode,
    TableNode,
    ToolNode,
    UnknownAttributeError,
)
from refold.domain.trajectory.run import QueuedStep, ReadOnlyRun, Run
from refold.domain.trajectory.trajectory import Trajectory, TrajectoryEdge, TrajectoryNode
from refold.infrastructure.context_factory import ContextFactory, ContextInitOptions, build_context_init_options
from refold.infrastructure.round_files import (
    ImportedRound,
    ReadRound,
    RoundPaths,
    import_round_files,
    load_meta_from_json,
    read_round_files,
    round_paths,
    write_round_files,
)

# The seed's name of a run.
Context = Run

__all__ = [
    "ActionNode",
    "AttributeVersion",
    "BaseIR",
    "ChangedAttribute",
    "ColumnNode",
    "Context",
    "ContextFactory",
    "ContextInitOptions",
    "DataNode",
    "FileNode",
    "ImportedRound",
    "KnowledgeNode",
    "NodeNotFoundError",
    "NodeVersion",
    "QueryNode",
    "QueuedStep",
    "ReadOnlyRun",
    "ReadRound",
    "RoundPaths",
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
    "build_context_init_options",
    "import_round_files",
    "load_meta_from_json",
    "read_round_files",
    "round_paths",
    "write_round_files",
]
