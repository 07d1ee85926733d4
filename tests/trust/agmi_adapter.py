"""
Refold for `agmi-check`, which makes nine silent edits at rest, and asks whether a store serves them.

The attacker of this adapter is stronger than it asks for: after each edit, positions, versions and all digests are
computed anew, so that the file is consistent. Only the witness, which lies elsewhere, knows better.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record

import refold
from refold.domain.errors import RefoldError
from refold.domain.log.envelope import NO_DIGEST, UNKEYED, Meta
from refold.domain.positions import Position
from refold.infrastructure.log.codec import decode_meta, encode_meta

CHAT, OTHER = "a", "b"
Row = dict[str, Any]


class RefoldAdapter(MemoryAdapter):  # type: ignore[misc]  # it ships no types
    """A store in a file, with a witness in another folder."""

    name = "refold"
    supports_replay = supports_metadata = supports_snapshot = True

    def setup(self) -> None:
        """Make two empty folders: one for the store, one for the witness, which the attacker cannot reach."""
        self._folders = [tempfile.TemporaryDirectory() for _ in range(2)]
        self._file, self._witness = (Path(one.name) / "refold" for one in self._folders)

    def teardown(self) -> None:
        """Remove both."""
        for folder in self._folders:
            folder.cleanup()

    def _open(self) -> refold.Store:
        return refold.open(self._file, witness=self._witness)

    def seed(self, n: int) -> None:
        """Write messages to the first chat."""
        self._say(CHAT, [f"seed {number}" for number in range(n)])

    def seed_other(self, n: int) -> None:
        """Write messages to the second chat."""
        self._say(OTHER, [f"other {number}" for number in range(n)])

    def append_genuine(self) -> None:
        """Write one more message to the first chat."""
        self._say(CHAT, ["one more"])

    def _say(self, chat: str, texts: list[str]) -> None:
        with self._open() as store:
            for text in texts:
                store.chat(chat).add_message("user", text)

    # What the attacker does

    def _rows(self) -> list[Row]:
        with closing(sqlite3.connect(self._file)) as file:
            file.row_factory = sqlite3.Row
            found = file.execute("SELECT stream.id AS context, event.* FROM event JOIN stream ON key = stream")
            return sorted((dict(row) for row in found), key=lambda row: row["position"])

    def _put(self, rows: list[Row]) -> None:
        """Write all rows anew, with the numbers and digests that they must have."""
        ends: dict[str, tuple[int, bytes]] = {}
        with closing(sqlite3.connect(self._file)) as file, file:
            file.execute("DELETE FROM event")
            for position, row in enumerate(rows, 1):
                context, time = row["context"], row["recorded_at"]
                version, before = ends.get(context, (0, NO_DIGEST))
                payload, packed = row["payload"], row["meta"]
                digest = UNKEYED.digest(
                    before, context, version + 1, Position(-1, position), time, decode_meta(packed), payload[1:]
                )
                ends[context] = (version + 1, digest)
                values = (position, row["stream"], version + 1, time, row["tag"], packed, payload, digest)
                file.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def _messages(self, rows: list[Row], chat: str) -> Iterator[Row]:
        """Yield the rows of the messages of a chat, without the event that opened it."""
        yield from [row for row in rows if row["context"] == f"chat:{chat}"][1:]

    def _records(self, chat: str) -> list[Record]:
        return [
            Record(seq, {"context": chat, "payload": row["payload"], "meta": row["meta"], "time": row["recorded_at"]})
            for seq, row in enumerate(self._messages(self._rows(), chat))
        ]

    def read_all_raw(self) -> list[Record]:
        """Return what is stored of the first chat."""
        return self._records(CHAT)

    def read_other_raw(self) -> list[Record]:
        """Return what is stored of the second chat."""
        return self._records(OTHER)

    def write_raw(self, record: Record) -> None:
        """Write a record in its place, or behind the last one."""
        rows = self._rows()
        mine = [*self._messages(rows, CHAT)]
        if record.seq == len(mine):
            rows.append(dict(mine[-1]))
            mine.append(rows[-1])
        mine[record.seq].update(payload=record.fields["payload"], meta=record.fields["meta"])
        self._put(rows)

    def delete_raw(self, seq: int) -> None:
        """Take a record away."""
        rows = self._rows()
        gone = [*self._messages(rows, CHAT)][seq]
        self._put([row for row in rows if row is not gone])

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Write the content of a record over another one."""
        fields = {**self._records(CHAT)[victim_seq].fields, "payload": donor.fields["payload"]}
        self.write_raw(Record(victim_seq, fields))

    def read_meta(self, seq: int) -> Row:
        """Return who wrote a record."""
        return {"actor": decode_meta(self._records(CHAT)[seq].fields["meta"]).actor}

    def write_meta(self, seq: int, meta: Row) -> None:
        """Say that somebody else wrote a record."""
        record = self._records(CHAT)[seq]
        record.fields["meta"] = encode_meta(Meta(actor="mallory"))
        self.write_raw(record)

    def snapshot_store(self) -> str:
        """Copy the file."""
        return str(self._copy_store(self._file))

    def restore_store(self, token: object) -> None:
        """Put the copy back."""
        self._restore_store(str(token), self._file)

    def mutate_payload(self, record: Record) -> Record:
        """Change what a record says."""
        record.fields["payload"] = record.fields["payload"].replace(b"seed", b"evil")
        return record

    def identity_of(self, record: Record) -> str:
        """Return the place of a record."""
        return f"{record.fields['context']}:{record.seq}"

    def payload_of(self, record: Record) -> str:
        """Return what a record says, with the id of its item."""
        return str(record.fields["payload"])

    def owner_of(self, record: Record) -> str:
        """Return the chat of a record."""
        return str(record.fields["context"])

    # What the store says

    def reload(self) -> None:
        """Do nothing: it is opened for each question."""

    def verify(self) -> bool:
        """Return whether the chat is served."""
        try:
            with self._open() as store:
                return bool(store.chat(CHAT, create=False).items)
        except RefoldError as error:
            self.verify_detail = f"{type(error).__name__}: {error}"
            return False
