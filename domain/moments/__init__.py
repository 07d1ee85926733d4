"""Moments of a whole store that have a name."""

from __future__ import annotations

from .names import STREAM, MomentNamed, MomentNames, StoreEvent

__all__ = ["STREAM", "MomentNamed", "MomentNames", "StoreEvent"]
