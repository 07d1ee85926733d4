"""Ids of imported items: they follow from where an item stood, so that the same import gives the same ones."""

from __future__ import annotations

import hashlib


class IdsOfPlaces:
    """Ids that are the same at every import of the same messages."""

    def __init__(self, context_id: str) -> None:
        self._context_id = context_id
        self._taken: set[str] = set()

    def made(self, prefix: str, place: int | str, part: int) -> str:
        """
        Return the id of a part of the message at `place`; 12 digits can meet by chance: then the next attempt counts.
        """
        made, attempt = "", 0
        while not made or made in self._taken:
            source = f"{self._context_id}\0{place}\0{part}\0{attempt}".encode()
            made = prefix + hashlib.blake2b(source, digest_size=6).hexdigest()
            attempt += 1
        self._taken.add(made)
        return made
