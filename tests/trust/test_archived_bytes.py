"""The bytes of an encrypted event in the file of an archive."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import msgspec
import pytest

import refold
from refold.domain.log.envelope import encode_payload
from refold.infrastructure.exchange import archiving
from refold.infrastructure.exchange.event_files import payload_line
from refold.infrastructure.trust.keys import MasterKeys


def test_encrypted_bytes_that_read_like_a_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written as they are; where an older archive has them packed once more, they come back all the same."""
    assert msgspec.json.decode(payload_line(b64decode("nullAAAA"))) == "nullAAAA"
    with refold.open(tmp_path / "sealed.db", keys=MasterKeys({"first": bytes(range(32))})) as store:
        chat = store.chat("a")
        chat.add_message("user", "a question")

        with monkeypatch.context() as patch:
            patch.setattr(archiving, "payload_line", lambda payload: payload_line(encode_payload(payload)))
            store.archive(tmp_path / "cold", "a", why="cold")
        store.unarchive("a")

        assert [item.content for item in chat.items if isinstance(item, refold.ChatMessage)] == [["a question"]]
        assert store.verify().problems == ()
