"""The files of a round: two for each, written and read as the originals do, and without their losses (SPEC D13)."""

from __future__ import annotations

from .importing import ImportedRound, import_round_files
from .paths import RoundPaths, round_paths
from .reading import ReadRound, load_meta_from_json, read_round_files
from .writing import write_round_files

__all__ = [
    "ImportedRound",
    "ReadRound",
    "RoundPaths",
    "import_round_files",
    "load_meta_from_json",
    "read_round_files",
    "round_paths",
    "write_round_files",
]
