"""Stores on the move: contexts with their whole past as a file for another store, and copies of whole databases."""

from __future__ import annotations

from .copying import CopyReport, copy_store
from .export import ExportReport, export_events
from .import_events import TakenIn, take_in_events

__all__ = ["CopyReport", "ExportReport", "TakenIn", "copy_store", "export_events", "take_in_events"]
