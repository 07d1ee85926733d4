"""A projection's double: the same fold under another name, so that its rows lie beside those that are read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal, cast

from ...projections.contract import Projection

Purpose = Literal["shadow", "check"]
PARTS = ("version", "row", "keys", "evolve", "events", "evolve_all", "stays_in_slice", "on_fault")


def shadow_of(projection: Projection, purpose: Purpose = "shadow", *, partition: int | None = None) -> Projection:
    """
    Return the same projection under another name: rows that are made anew, of one partition or all, or only compared.
    """
    # Put together from its parts: a projection need not be one that can be copied and given another name.
    parts = {part: getattr(projection, part) for part in PARTS if hasattr(projection, part)}
    number = "" if partition is None else f"_{partition}"
    return cast(Projection, SimpleNamespace(name=f"{projection.name}_{purpose}{number}", **parts))
