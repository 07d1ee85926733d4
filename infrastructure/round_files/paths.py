"""Where the files of a round lie: `.context/Run{run}_Sub{sub}.json` and `.meta.json` below a session's folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

FOLDER = ".context"
GRAPH_FILE = re.compile(r"Run(0|[1-9][0-9]*)_Sub(0|[1-9][0-9]*)\.json")


class RoundPaths(NamedTuple):
    """The file of the graph, and the one beside it."""

    graph: Path
    meta: Path


def round_paths(session_root: str | os.PathLike[str], run_id: int, sub_id: int = 0) -> RoundPaths:
    """Return where the two files of a round lie (SPEC D13.1)."""
    folder, name = Path(session_root) / FOLDER, f"Run{run_id}_Sub{sub_id}"
    return RoundPaths(folder / f"{name}.json", folder / f"{name}.meta.json")


def rounds_in(session_root: str | os.PathLike[str]) -> list[tuple[int, int]]:
    """Return the numbers of the rounds and sub-agents that have a graph below a session's folder, in their order."""
    folder = Path(session_root) / FOLDER
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    found = [match for name in names if (match := GRAPH_FILE.fullmatch(name))]
    return sorted((int(match[1]), int(match[2])) for match in found)
