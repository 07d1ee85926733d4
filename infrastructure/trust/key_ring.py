"""
The data keys of a store: one for each subject, wrapped in the database, unwrapped in this process; and the store's own
key, from which that of its digests is derived. A store that is not encrypted has that one alone.

A subject is a user, if a context has one, else the session or the context at which a fork began. Its name is stored as
a hash that only the store's own key can make.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Container, Iterator
from time import monotonic

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ...domain.clock import REAL_SYSTEM, System
from ...domain.errors import InvalidInputError, KeyDestroyedError, KeyMissingError
from .keys import KEY_BYTES, Keys
from .tables import (
    ADD_KEY,
    CHAIN,
    DESTROY,
    KEY,
    NEWEST_KEY,
    RETIRE,
    RETIRED,
    STORE,
    WRAP_AGAIN,
    KeyRow,
    Statement,
    Tables,
    keys_in,
)

KEYS_MAX = 10_000
# For so long a process may use a key that another process has destroyed or replaced.
KNOWN_SECONDS = 1.0
HASH_BYTES = 16


class DataKey:
    """A data key, unwrapped; `subject` is the hash of the name of its subject."""

    __slots__ = ("cipher", "id", "row", "secret", "subject")

    def __init__(self, row: KeyRow, secret: bytes) -> None:
        self.id, self.subject, self.row, self.secret = row.id, row.subject, row, secret
        self.cipher = AESGCM(secret)


# Reads a key again; it gets the key as it was known until now.
Read = Callable[[str, DataKey | None], DataKey]


class KeyRing:
    """
    The data keys of one store. A new store gets its own key here: with `encrypt`, one of a store that is encrypted.

    Raises:
        KeyUnavailableError: the master keys that were given are not those of the store.
    """

    def __init__(self, tables: Tables, keys: Keys, system: System = REAL_SYSTEM, *, encrypt: bool = True) -> None:
        self._tables, self._keys, self._system = tables, keys, system
        # By id, and by the hash of the subject; each with the time until which it is known to be in force.
        self._by_id: dict[str, tuple[float, DataKey]] = {}
        self._newest: dict[str, tuple[float, DataKey]] = {}
        self._store = self._key_of_store(STORE if encrypt else CHAIN)

    @property
    def encrypts(self) -> bool:
        """Whether the events are encrypted; otherwise only digests are keyed."""
        return self._store.subject == STORE

    @property
    def store(self) -> DataKey:
        """The key of what belongs to no subject."""
        return self._store

    def hashed(self, *texts: str) -> str:
        """Return a hash of texts, 32 hexadecimal digits, which nobody can make without the key of the store."""
        message = b"".join(len(data).to_bytes(8, "big") + data for data in (text.encode() for text in texts))
        return self.hashed_bytes(message).hex()

    def hashed_bytes(self, message: bytes) -> bytes:
        """Return the hash of bytes, 16 bytes long."""
        return hmac.digest(self._store.secret, message, hashlib.sha256)[:HASH_BYTES]

    def derived(self, purpose: str) -> bytes:
        """Return a key of 32 bytes for another purpose than encryption; the same as long as the store lives."""
        return hmac.digest(self._store.secret, f"key for {purpose}".encode(), hashlib.sha256)

    def key(self, key_id: str) -> DataKey:
        """
        Return a data key by its id.

        Raises:
            KeyMissingError: there is none with this id.
            KeyDestroyedError: it was destroyed.
        """
        return self._known(self._by_id, key_id, self._read)

    def subject_of(self, key_id: str) -> str:
        """Return the hash of the subject of a key, which may be destroyed."""
        _, known = self._by_id.get(key_id, (0.0, None))
        if known is not None:
            return known.subject.removeprefix(RETIRED)
        rows = self._tables.ask(KEY, key_id)
        if not rows:
            raise KeyMissingError(key_id, "the table data_key of the store")
        return KeyRow(*rows[0]).subject.removeprefix(RETIRED)

    def newest(self, subject: str) -> DataKey:
        """Return the newest key of a subject, given by its hash; it is made if there is none."""
        return self._store if subject == STORE else self._known(self._newest, subject, self._read_newest)

    def add(self, subject: str) -> DataKey:
        """Make a new key for a subject, given by its hash; events from now on are encrypted with it."""
        while True:
            key = self._new(base64.urlsafe_b64encode(os.urandom(9)).decode(), subject)
            # An id that is taken, by a chance of one in 2^72, would leave events whose key is not stored.
            if self._tables.change(Statement(ADD_KEY, key.row))[0]:
                return key

    def retire(self, subject: str) -> DataKey:
        """
        Make a new key for a subject, given by its hash, and retire those before: they are for reading only.

        Other processes encrypt with those that they know for KNOWN_SECONDS at most.
        """
        key = self.add(subject)
        self._tables.change(Statement(RETIRE, (RETIRED + subject, subject, key.id)))
        self._newest.pop(subject, None)
        return key

    def destroy_retired(self, used: Container[str]) -> int:
        """Destroy the retired keys but those that are `used`, and return how many; nobody can undo this."""
        unused = [row.id for row in self._retired() if row.id not in used]
        for key_id in unused:
            self._tables.change(Statement(DESTROY, (b"", key_id)))
            self._by_id.pop(key_id, None)
        return len(unused)

    @property
    def has_retired(self) -> bool:
        """Whether there are retired keys that are not destroyed."""
        return any(self._retired())

    def _retired(self) -> Iterator[KeyRow]:
        return (row for row in self.rows() if row.subject.startswith(RETIRED) and row.wrapped)

    def rotate(self) -> int:
        """
        Wrap every data key with the newest master key, and return how many were wrapped with another one; no event is
        written anew. A crash leaves some of them for the next call.
        """
        newest, _ = self._keys.wrap(bytes(KEY_BYTES))
        count = 0
        for row in self.rows():
            if row.wrapped and row.master != newest:
                master, wrapped = self._keys.wrap(self._keys.unwrap(row.master, row.wrapped))
                self._tables.change(Statement(WRAP_AGAIN, (master, wrapped, row.id, row.wrapped)))
                count += 1
        return count

    def renew(self) -> int:
        """Make a new data key for every subject, for its events from now on; return how many there are."""
        found = {row.subject for row in self.rows() if row.wrapped and row.id != STORE}
        subjects = [subject for subject in found if not subject.startswith(RETIRED)]
        for subject in subjects:
            self.add(subject)
        self._newest.clear()
        return len(subjects)

    def rows(self) -> Iterator[KeyRow]:
        """Yield the stored rows of all keys."""
        return keys_in(self._tables)

    def _key_of_store(self, subject: str) -> DataKey:
        # Another process may make it at the same moment: the first one counts.
        if not self._tables.ask(KEY, STORE):
            self._tables.change(Statement(ADD_KEY, self._new(STORE, subject).row))
        return self._read(STORE)

    def _new(self, key_id: str, subject: str) -> DataKey:
        secret = os.urandom(KEY_BYTES)
        master, wrapped = self._keys.wrap(secret)
        return DataKey(KeyRow(key_id, subject, int(self._system.now() * 1_000_000), master, wrapped), secret)

    def _read(self, key_id: str, known: DataKey | None = None) -> DataKey:
        rows = self._tables.ask(KEY, key_id)
        if not rows:
            raise KeyMissingError(key_id, "the table data_key of the store")
        return self._unwrapped(KeyRow(*rows[0]), known)

    def _read_newest(self, subject: str, known: DataKey | None = None) -> DataKey:
        rows = self._tables.ask(NEWEST_KEY, subject)
        # A subject that was erased may come back, and gets a new key then.
        if rows and rows[0][4]:
            return self._unwrapped(KeyRow(*rows[0]), known)
        return self.add(subject)

    def _unwrapped(self, row: KeyRow, known: DataKey | None) -> DataKey:
        if not row.wrapped:
            raise KeyDestroyedError(row.id)
        # A service in a cloud takes milliseconds, and money, to unwrap a key.
        if known is not None and known.row == row:
            return known
        secret = self._keys.unwrap(row.master, bytes(row.wrapped))
        if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
            raise InvalidInputError(f"the keys gave no key of {KEY_BYTES} bytes for {row.id!r}: look at their `unwrap`")
        return DataKey(row, secret)

    def _known(self, known: dict[str, tuple[float, DataKey]], name: str, read: Read) -> DataKey:
        now = monotonic()
        until, key = known.get(name, (0.0, None))
        if key is not None and until > now:
            return key
        if len(known) >= KEYS_MAX:
            known.clear()
        key = read(name, key)
        known[name] = (now + KNOWN_SECONDS, key)
        return key
