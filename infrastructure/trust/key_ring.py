"""
The data keys of a store: one for each subject, wrapped in the database, unwrapped in this process; and the store's own
key, from which the key of its digests is derived. A store that is not encrypted has only its own key.

A subject is a user, if a context has one, else the session or the context at which a fork began. Its name is stored as
a hash that only the store's own key can make.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from time import monotonic

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ...domain.clock import REAL_SYSTEM, System
from ...domain.errors import DamagedError, KeyDestroyedError, KeyMissingError, KeyUnavailableError, RefoldError
from .keys import BOUND, KEY_BYTES, NONCE_BYTES, Keys, unwrapped_for, wrapped_for
from .tables import (
    ADD_KEY,
    CHAIN,
    CLOSED,
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
    key_row,
    keys_in,
    row_name,
    subject_in,
)

KEYS_MAX = 10_000
# The longest time for which a process uses a key that another process has destroyed or replaced.
KNOWN_SECONDS = 1.0
HASH_BYTES = 16


class DataKey:
    """A data key, unwrapped; `subject` is the hash of the name of its subject."""

    __slots__ = ("cipher", "id", "row", "secret", "subject")

    def __init__(self, row: KeyRow, secret: bytes) -> None:
        self.id, self.subject, self.row, self.secret = row.id, row.subject, row, secret
        self.cipher = AESGCM(secret)

    def sealed(self, data: bytes, bound: bytes, nonce: bytes = b"") -> bytes:
        """Return the nonce, by default a new one, and `data` encrypted under it; `bound` must be given to open."""
        nonce = nonce or os.urandom(NONCE_BYTES)
        return nonce + self.cipher.encrypt(nonce, data, bound)

    def opened(self, data: bytes, bound: bytes) -> bytes:
        """
        Return what `sealed` encrypted.

        Raises:
            InvalidTag: this is another key, or the bytes were changed.
            ValueError: they are too short.
        """
        return self.cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)


# Reads a key again; it gets the key as it was known until now.
Read = Callable[[str, DataKey | None], DataKey]


class KeyRing:
    """
    The data keys of one store. A new store gets its own key here; `encrypt` says whether it will be encrypted.

    Raises:
        KeyUnavailableError: the master keys that were given are not those of the store.
    """

    def __init__(self, tables: Tables, keys: Keys, system: System = REAL_SYSTEM, *, encrypt: bool = True) -> None:
        self._tables, self._keys, self._system = tables, keys, system
        # By id, and by the hash of the subject; each with the time until which it is known to be in force.
        self._by_id: dict[str, tuple[float, DataKey]] = {}
        self._newest: dict[str, tuple[float, DataKey]] = {}
        # The ids of the keys that this process has retired.
        self._retired: set[str] = set()
        self._store_key = self._key_of_store(STORE if encrypt else CHAIN)

    @property
    def encrypts(self) -> bool:
        """Whether the events are encrypted; otherwise only digests are keyed."""
        return self._store_key.subject == STORE

    @property
    def store(self) -> DataKey:
        """The key of what belongs to no subject."""
        return self._store_key

    def hashed(self, *texts: str) -> str:
        """Return a hash of texts, 32 hexadecimal digits, which nobody can make without the key of the store."""
        message = b"".join(len(data).to_bytes(8, "big") + data for data in (text.encode() for text in texts))
        return self.hashed_bytes(message).hex()

    def hashed_bytes(self, message: bytes) -> bytes:
        """Return the hash of bytes, 16 bytes long."""
        return hmac.digest(self._store_key.secret, message, hashlib.sha256)[:HASH_BYTES]

    def chain_key(self) -> bytes:
        """Return the key of the digests, 32 bytes; the same as long as the store lives."""
        return hmac.digest(self._store_key.secret, b"key for chain", hashlib.sha256)

    def key(self, key_id: str) -> DataKey:
        """
        Return a data key by its id.

        Raises:
            KeyMissingError: there is none with this id.
            KeyDestroyedError: it was destroyed.
        """
        return self._remembered(self._by_id, key_id, self._read)

    def has(self, key_id: str) -> bool:
        """Return whether a data key is there, whatever it is wrapped with: it has a row, and was not destroyed."""
        rows = self._tables.ask(KEY, key_id)
        return bool(rows and KeyRow(*rows[0]).wrapped)

    def require_masters(self) -> None:
        """
        Require that the master keys are there. Without them no key can be unwrapped, and that is no fault of an event.

        Raises:
            KeyUnavailableError: the store's own key cannot be unwrapped now.
        """
        self._secret(self._row(STORE))

    def subject_of(self, key_id: str) -> str:
        """
        Return the hash of the subject of a key; as it is stored, if the key is destroyed or cannot be unwrapped here.

        Raises:
            DamagedError: the key is of another subject.
        """
        _, known = self._by_id.get(key_id, (0.0, None))
        if known is not None:
            return subject_in(known.row)
        row = self._row(key_id)
        with suppress(KeyUnavailableError):
            return subject_in(self.key(key_id).row)
        return subject_in(row)

    def newest(self, subject: str) -> DataKey:
        """Return the newest key of a subject, given by its hash; it is made if there is none."""
        return self._store_key if subject == STORE else self._remembered(self._newest, subject, self._read_newest)

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
        (retired,) = self._tables.change(Statement(RETIRE, (RETIRED + subject, subject, key.id)))
        self._retired.update(key_id for (key_id,) in retired)
        self._newest.pop(subject, None)
        return key

    def retired(self, *, are_closed: bool | None = None) -> list[KeyRow]:
        """Return the rows of the retired keys that are not destroyed: all, or those that are closed or not closed."""
        # A row that nobody can read must not keep the keys of others from being destroyed.
        rows = [*self.rows([])]
        # A key is not bound to the mark that it is retired: somebody may have removed the mark from the row.
        found = [row for row in rows if row.wrapped and (subject_in(row) != row.subject or row.id in self._retired)]
        return [row for row in found if are_closed in (None, row.subject.startswith(CLOSED))]

    def close(self, keys: Sequence[KeyRow]) -> None:
        """
        Close retired keys: when this returns, no event that is encrypted with one can be recorded any more.

        Raises:
            StorageBusyError: an append that has begun before takes too long.
        """
        if keys:
            self._tables.close(keys)

    def destroy(self, keys: Iterable[KeyRow]) -> int:
        """Destroy closed keys, with which no event is encrypted, and return how many; nobody can undo this."""
        count = 0
        for row in keys:
            self._tables.change(Statement(DESTROY, (b"", row.id)))
            self._by_id.pop(row.id, None)
            count += 1
        return count

    def rotate(self) -> int:
        """
        Wrap every data key with the newest master key, and return how many were wrapped with another one, or by an
        earlier version, which bound none to its row. No event is written anew; a crash leaves some for the next call.

        Raises:
            KeyUnavailableError, DamagedError: some cannot be unwrapped. The others are wrapped before it is raised.
        """
        newest, _ = self._keys.wrap(bytes(KEY_BYTES))
        count, faults, failed = 0, list[DamagedError](), list[RefoldError]()
        for row in self.rows(faults):
            if row.wrapped and (row.master != newest or not row.wrapped.startswith(BOUND)):
                try:
                    secret = self._secret(row)
                except (KeyUnavailableError, DamagedError) as error:
                    failed.append(error)
                    continue
                master, wrapped = wrapped_for(self._keys, secret, _associated_data(row))
                self._tables.change(Statement(WRAP_AGAIN, (master, wrapped, row.id, row.wrapped)))
                count += 1
        if failed := [*failed, *faults]:
            raise failed[0]
        return count

    def renew(self) -> int:
        """Make a new data key for every subject, for its events from now on; return how many there are."""
        subjects = {
            row.subject for row in self.rows() if row.wrapped and row.id != STORE and subject_in(row) == row.subject
        }
        for subject in subjects:
            self.add(subject)
        self._newest.clear()
        return len(subjects)

    def rows(self, faults: list[DamagedError] | None = None) -> Iterator[KeyRow]:
        """Yield the stored rows of all keys; with `faults` as `keys_in` does."""
        return keys_in(self._tables, faults)

    def faults(self) -> list[DamagedError]:
        """Return the errors of the rows of keys that cannot be read."""
        faults: list[DamagedError] = []
        _ = [*self.rows(faults)]
        return faults

    def _key_of_store(self, subject: str) -> DataKey:
        # Another process may make it at the same moment: the first one counts.
        if not self._tables.ask(KEY, STORE):
            self._tables.change(Statement(ADD_KEY, self._new(STORE, subject).row))
        return self._read(STORE)

    def _new(self, key_id: str, subject: str) -> DataKey:
        secret, row = os.urandom(KEY_BYTES), KeyRow(key_id, subject, int(self._system.now() * 1_000_000), "", b"")
        master, wrapped = wrapped_for(self._keys, secret, _associated_data(row))
        return DataKey(row._replace(master=master, wrapped=wrapped), secret)

    def _secret(self, row: KeyRow) -> bytes:
        return unwrapped_for(self._keys, (row.master, row.wrapped), _associated_data(row), row_name(row.id))

    def _row(self, key_id: str) -> KeyRow:
        rows = self._tables.ask(KEY, key_id)
        if not rows:
            raise KeyMissingError(key_id, "the table data_key of the store", remedy="restore the database from a copy")
        return key_row(rows[0])

    def _read(self, key_id: str, known: DataKey | None = None) -> DataKey:
        return self._unwrapped(self._row(key_id), known)

    def _read_newest(self, subject: str, known: DataKey | None = None) -> DataKey:
        rows = self._tables.ask(NEWEST_KEY, subject)
        # A subject that was erased may come back, and gets a new key then.
        if rows and (row := key_row(rows[0])).wrapped:
            return self._unwrapped(row, known)
        return self.add(subject)

    def _unwrapped(self, row: KeyRow, known: DataKey | None) -> DataKey:
        if not row.wrapped and row.id == STORE:
            raise DamagedError(row_name(row.id), "it has no key, and that of the store is never destroyed")
        if not row.wrapped:
            raise KeyDestroyedError(row.id)
        # A service in a cloud takes milliseconds, and money, to unwrap a key.
        if known is not None and known.row == row:
            return known
        return DataKey(row, self._secret(row))

    def _remembered(self, known: dict[str, tuple[float, DataKey]], name: str, read: Read) -> DataKey:
        now = monotonic()
        until, key = known.get(name, (0.0, None))
        if key is not None and until > now:
            return key
        if len(known) >= KEYS_MAX:
            known.clear()
        key = read(name, key)
        known[name] = (now + KNOWN_SECONDS, key)
        return key


def _associated_data(row: KeyRow) -> bytes:
    """Return what the wrapped key of a row is bound to."""
    return f"data key {row.id} of {subject_in(row)}, made at {row.made_at}".encode()
