"""The compression dictionary of a log on PostgreSQL: trained once from its first events, kept for ever."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from ....domain.concurrency.locks import renew_in_child
from ....domain.concurrency.threads import start_if_possible
from ....domain.errors import DamagedError, StorageError
from ..compression import DICTIONARY_EVENTS, ENCRYPTED, Compression, train_dictionary
from .connection import PostgresDatabase
from .wire import Call, Wire, int4

SMALLEST_IN_ROW = 1_024
NEWEST = "SELECT max(number) FROM dictionary"
READ = "SELECT checksum, data FROM dictionary WHERE number = $1"
INSERT = "INSERT INTO dictionary VALUES (1, $1, $2) ON CONFLICT DO NOTHING"


class RowCompression(Compression):
    """
    Does not compress short payloads: that would cost time at every append and load, and save little, since a row also
    has an envelope and three index entries.
    """

    def shrink(self, data: bytes) -> bytes:
        """Return `data` in its stored form."""
        if len(data) < SMALLEST_IN_ROW or data.startswith(ENCRYPTED):
            return b"\x00" + data
        return super().shrink(data)


class Dictionaries:
    """Loads, checks and trains dictionaries; `compression` uses the newest."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._events = 0
        self._checksum = b""
        self._after_fork()
        renew_in_child(self)
        self.compression = RowCompression(self.load)

    def _after_fork(self) -> None:
        self._thread: threading.Thread | None = None

    def use_newest(self) -> None:
        """Compress with the newest dictionary of the database from now on, if it has one."""
        ((number,),) = self._database.ask(Call(NEWEST))[0]
        if number:
            dictionary = self.load(number)
            self._checksum = _checksum(dictionary)
            self.compression.use(number, dictionary)

    def load(self, number: int) -> bytes:
        """
        Return a dictionary.

        Raises:
            DamagedError: it is missing, or its bytes do not match its checksum.
        """
        rows = self._database.ask(Call(READ, (int4(number),)))[0]
        if not rows:
            raise DamagedError(f"dictionary {number}", "it is missing, and events were compressed with it")
        checksum, data = rows[0]
        if _checksum(data) != checksum:
            raise DamagedError(f"dictionary {number}", "its bytes do not match its checksum")
        return bytes(data)

    def is_there(self, wire: Wire) -> bool:
        """Check that the database still has the dictionary in use; if not, use none until one is found."""
        newest = self.compression.newest
        if not newest:
            return True
        rows = wire.run(Call(READ, (int4(newest),)))[0]
        if rows and bytes(rows[0][0]) == self._checksum:
            return True
        self.compression.drop()
        return False

    def count(self, events: int, samples: Callable[[], Sequence[bytes]]) -> None:
        """Count recorded events; at the 1,024th a dictionary is trained in its own thread."""
        self._events += events
        if self._events >= DICTIONARY_EVENTS and not self.compression.newest and self._thread is None:
            self._thread = threading.Thread(target=self._train, args=(samples,), name="refold-dictionary", daemon=True)
            # At the end of a program the next process trains.
            start_if_possible(self._thread)

    def close(self) -> None:
        """Wait for the training to end."""
        # A thread whose start was interrupted never ran.
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def _train(self, samples: Callable[[], Sequence[bytes]]) -> None:
        # If the store is closed meanwhile, or its server is gone, the dictionary is trained the next time.
        with suppress(StorageError, DamagedError):
            # Another process may have trained one already: one dictionary is enough.
            self.use_newest()
            texts = [] if self.compression.newest else [one for one in samples() if not one.startswith(ENCRYPTED)]
            dictionary = train_dictionary(texts)
            if dictionary is not None:
                call = Call(INSERT, (_checksum(dictionary), dictionary))
                self._database.ask(call)
                self.use_newest()


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()
