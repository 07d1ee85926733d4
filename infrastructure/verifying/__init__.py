"""Is the store what it should be? Every event, reference, large text and projection of it is looked at."""

from __future__ import annotations

from .report import Problem, Report
from .whole import verify

__all__ = ["Problem", "Report", "verify"]
