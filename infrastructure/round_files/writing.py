"""Writing the files of a round."""

from __future__ import annotations

import json
import os
from typing import Any

from ...domain.trajectory import Run
from ...domain.trajectory.rounds import told_round
from ..atomic_files import replace_files
from .form import graph_form, meta_form
from .paths import RoundPaths, round_paths


def write_round_files(run: Run, session_root: str | os.PathLike[str]) -> RoundPaths:
    """
    Write the two files of a round below its session's folder, and return where they lie (SPEC D13.1, D13.2).

    They hold the round's own nodes and edges with their history, its pointers and its messages; not what it changed
    in earlier rounds, nor steps. Both are replaced, or neither; a process that is killed in between leaves the new
    graph beside the old pointers, which reading tells. `run.at(...)` writes the round as it was.

    Raises:
        DecisionRefusedError: a transaction is open on the run.
        OSError: a file could not be written; both are as they were.
    """
    record = told_round(run)
    paths = round_paths(session_root, record.run_id, record.sub_id)
    replace_files({paths.graph: _encoded(graph_form(record)), paths.meta: _encoded(meta_form(record))})
    return paths


def _encoded(form: dict[str, Any]) -> bytes:
    return json.dumps(form, indent=2, ensure_ascii=False, sort_keys=True, allow_nan=False).encode()
