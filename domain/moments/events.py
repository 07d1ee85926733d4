"""
The events of a store itself.
"""

from __future__ import annotations

import msgspec

__all__ = ["MomentNamed", "StoreEvent"]


class MomentNamed(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="t", tag="store.moment_named.v1"):
    """A moment of the log got a name; the same name given again moves it. `moment` is its text."""

    name: str
    moment: str


StoreEvent = MomentNamed
