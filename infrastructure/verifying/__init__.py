"""Checks of a store: every event, reference, large text and projection."""

from __future__ import annotations

from .event_check import Problem, Report
from .store_check import verify, with_faults

__all__ = ["Problem", "Report", "verify", "with_faults"]
