"""Bringing transcripts in: files are read and checked whole, then written run by run, each in one append."""

from __future__ import annotations

from .formats import FORMATS, Format
from .importer import ImportedContext, ImportReport, import_file, import_runs
from .runs import Run, read_runs

__all__ = ["FORMATS", "Format", "ImportReport", "ImportedContext", "Run", "import_file", "import_runs", "read_runs"]
