"""Refold's own file format: contexts with their whole past, as a file that another store can import."""

from __future__ import annotations

from .export import ExportReport, export_events
from .import_events import TakenIn, take_in_events

__all__ = ["ExportReport", "TakenIn", "export_events", "take_in_events"]
