"""Moments of a whole store that have a name."""

from __future__ import annotations

from .events import MomentNamed, StoreEvent
from .names import STREAM, MomentNames

__all__ = ["STREAM", "MomentNamed", "MomentNames", "StoreEvent"]
