"""What happened in a whole store between two moments, context by context."""

from __future__ import annotations

import msgspec

from ...projections.catalogue import CatalogueRow
from .at import StoreAt


class ContextDifference(msgspec.Struct, frozen=True, kw_only=True):
    """
    A context at two moments, `before` and `after`; None where it did not exist.

    Between the two lie the versions from that of `before` to that of `after`; where it is the other way round, `after`
    is the earlier moment.
    """

    key: str
    kind: str
    id: str
    before: CatalogueRow | None
    after: CatalogueRow | None


def store_difference(before: StoreAt, after: StoreAt) -> list[ContextDifference]:
    """Return the contexts that are different at two moments, ordered by kind and id."""
    old = {row.key: row for row in before.contexts()}
    new = {row.key: row for row in after.contexts()}
    keys = [*new, *(key for key in old if key not in new)]
    differing = [key for key in keys if _version(old.get(key)) != _version(new.get(key))]
    rows = {**new, **old}
    return sorted(
        (
            ContextDifference(key=key, kind=rows[key].kind, id=rows[key].id, before=old.get(key), after=new.get(key))
            for key in differing
        ),
        key=lambda one: one.key,
    )


def _version(row: CatalogueRow | None) -> int:
    return 0 if row is None else row.version
