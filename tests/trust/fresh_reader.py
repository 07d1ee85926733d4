"""
A process that reads all of a store, says so, and waits: its memory is looked through meanwhile.

It imports nothing that has the words which are looked for.
"""

from __future__ import annotations

import sys

import refold
from refold.domain.positions import BEGINNING
from refold.infrastructure.trust.keys import MasterKeys


def main(location: str, key: str) -> None:
    """Read each event, context and row of a store; with a key, it is encrypted."""
    keys = MasterKeys({"first": bytes.fromhex(key)}) if key else None
    with refold.open(location, keys=keys) as store:
        events = store.log.read_all(after=BEGINNING, limit=100_000).events
        items = [store.chat(row.id).items for row in store.contexts() if row.kind == "chat"]
        found = store.search("question")
        report = store.verify(processes=1)
        print(len(events), len(items), len(found), len(report.problems), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
