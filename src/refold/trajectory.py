"""Runs of agents as graphs, under the names of their seed where it has some: an import moves code over."""

from __future__ import annotations

from refold.domain.trajectory import *  # noqa: F403
from refold.domain.trajectory import Run
from refold.domain.trajectory import __all__ as _trajectory
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
    "Context",
    "ContextFactory",
    "ContextInitOptions",
    "ImportedRound",
    "ReadRound",
    "RoundPaths",
    "build_context_init_options",
    "import_round_files",
    "load_meta_from_json",
    "read_round_files",
    "round_paths",
    "write_round_files",
    *_trajectory,
]
