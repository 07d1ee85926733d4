"""Is the store what it should be? Every event, reference, large text and projection of it is looked at."""

from __future__ import annotations

from .event_check import Problem, Report
from .store_check import verify

__all__ = ["Problem", "Report", "verify"]
