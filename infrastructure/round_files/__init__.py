"""The two files of each round, written and read as the original projects do, but without loss of data."""

from __future__ import annotations

from .files import (
    ReadRound,
    RoundPaths,
    load_meta_from_json,
    read_round_files,
    round_paths,
    write_graph_file,
    write_meta_file,
    write_round_files,
)
from .importing import ImportedRound, import_missing_rounds, import_round_files

__all__ = [
    "ImportedRound",
    "ReadRound",
    "RoundPaths",
    "import_missing_rounds",
    "import_round_files",
    "load_meta_from_json",
    "read_round_files",
    "round_paths",
    "write_graph_file",
    "write_meta_file",
    "write_round_files",
]
