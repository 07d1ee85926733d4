"""Runs of agents as graphs, under the names of their seed where it has some: an import moves code over."""

from __future__ import annotations

from refold.domain.messages import (
    AIMessage,
    HumanMessage,
    Message,
    SystemMessage,
    ToolMessage,
    build_current_context,
    clean_messages,
    message_from_dict,
    message_to_dict,
)
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
from refold.infrastructure.message_files import read_messages_file, write_messages_file
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
from refold.infrastructure.seed_contexts import (
    Context,
    ContextFactory,
    ContextInitOptions,
    TodoListManager,
    TodoNode,
    build_context_init_options,
)

# The seed's names of three functions.
serialize_message, deserialize_message, sanitize_messages = message_to_dict, message_from_dict, clean_messages

__all__ = [
    "AIMessage",
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
    "HumanMessage",
    "ImportedRound",
    "KnowledgeNode",
    "Message",
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
    "SystemMessage",
    "TableNode",
    "TodoListManager",
    "TodoNode",
    "ToolMessage",
    "ToolNode",
    "Trajectory",
    "TrajectoryDiff",
    "TrajectoryEdge",
    "TrajectoryNode",
    "UnknownAttributeError",
    "build_context_init_options",
    "build_current_context",
    "clean_messages",
    "deserialize_message",
    "import_round_files",
    "load_meta_from_json",
    "message_from_dict",
    "message_to_dict",
    "read_messages_file",
    "read_round_files",
    "round_paths",
    "sanitize_messages",
    "serialize_message",
    "write_messages_file",
    "write_round_files",
]
