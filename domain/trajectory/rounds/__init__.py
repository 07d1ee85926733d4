"""A round as a value, which a run can be told as, and be made from again: what its files hold."""

from __future__ import annotations

from .import_round import IMPORTED, bring_in, checked_round
from .record import RoundChange, RoundEdge, RoundNode, RoundRecord, are_same, told_round

__all__ = [
    "IMPORTED",
    "RoundChange",
    "RoundEdge",
    "RoundNode",
    "RoundRecord",
    "are_same",
    "bring_in",
    "checked_round",
    "told_round",
]
