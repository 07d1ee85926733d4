"""Importing transcripts: whole files are read and checked first, then written run by run, each in one append."""

from __future__ import annotations

from .formats import FORMATS, Format
from .importer import import_file, import_runs
from .runs import ImportedContext, ImportReport, Run, as_transcripts, read_runs
from .trajectories import import_as_runs, record_transcript

__all__ = [
    "FORMATS",
    "Format",
    "ImportReport",
    "ImportedContext",
    "Run",
    "as_transcripts",
    "import_as_runs",
    "import_file",
    "import_runs",
    "read_runs",
    "record_transcript",
]
