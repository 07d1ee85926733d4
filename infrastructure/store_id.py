"""
The lineage of a store: an id that it keeps as long as it lives, and that no other store has.

A restored store gets another id. So a witness can distinguish a store that was restored on purpose from a file that
was replaced by an older copy. Such a copy keeps the id: nothing distinguishes it from the original.
"""

from __future__ import annotations

import os
import re

from .projecting.store import ProjectionStore, kept_by

NOTE = "lineage"
LINEAGE_ID = re.compile("[0-9a-f]{32}")


def lineage_of(rows: ProjectionStore) -> str:
    """
    Return the id of a store's lineage, given its rows; a store that has none yet gets one.

    Raises:
        StorageReadOnlyError: it has none, and was opened for reading only.
    """
    kept = kept_by(rows)
    while True:
        found = kept.note(NOTE)
        if found is not None:
            return found
        # Another process may be faster; then its id counts.
        kept.set_note(NOTE, before=None, after=os.urandom(16).hex())


def known_lineage(rows: ProjectionStore) -> str:
    """Return the id of a store's lineage; empty if it has none yet."""
    return kept_by(rows).note(NOTE) or ""
