"""Where a context lives: what it shares with its forks and branches, which live there too."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from ..clock import System
from ..ids import derived_id, split_stream_id
from ..log.ports import Log
from ..spans import Segment
from .journal import Journal
from .transaction import current_transaction
from .view import Durability


class Home:
    """A log, the system of its contexts, and how their changes get to the disk; detached without a store."""

    def __init__(
        self,
        log: Log,
        *,
        system: System,
        durability: Durability,
        unflushed: set[Journal[Any]] | None,
        is_detached: bool,
    ) -> None:
        self.log, self.system = log, system
        self.durability, self.unflushed = durability, unflushed
        self.is_detached = is_detached

    def child_id(self, parent: str, ancestry: Sequence[Segment], key: str | None) -> str:
        """
        Return an id for a child of the stream `parent`, made of the root's, since every descendant names all its
        ancestors; the same one when a call is repeated under its idempotency key, or that of the transaction.
        """
        open_transaction = current_transaction(self.log) if key is None else None
        if open_transaction is not None:
            key = open_transaction.key_of_next_child()
        name = split_stream_id(parent)[1]
        root = split_stream_id(ancestry[0].stream)[1] if ancestry else name
        if key is None:
            return derived_id(root, self.system.new_id("-"))
        return derived_id(root, "-" + hashlib.blake2b(f"{name}\0{key}".encode(), digest_size=6).hexdigest())

    def is_shared_with(self, other: Home) -> bool:
        """Return whether another context lies in the same log, so that each can name the other's items."""
        return self.log is other.log
