"""Records and their kinds, as the seed has them (SPEC A4.1)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from refold.domain.memory.records import MemoryKind, MemoryRecord


def test_a_record() -> None:
    """Three fields are required; the others have the seed's defaults."""
    before = datetime.now(UTC)
    record = MemoryRecord(scope="user:1", key="lang", value={"a": [1]})

    assert list(MemoryRecord.model_fields) == ["scope", "key", "value", "kind", "tags", "timestamp", "updated_at"]
    assert (record.kind, record.tags, record.value) == (MemoryKind.SEMANTIC, [], {"a": [1]})
    assert before <= record.timestamp <= record.updated_at <= datetime.now(UTC)
    assert MemoryRecord.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize("wrong", [{"scope": ""}, {"key": ""}, {"kind": "other"}, {"more": 1}])
def test_what_is_no_record(wrong: dict[str, Any]) -> None:
    """Nothing empty, no other kinds, no other fields."""
    with pytest.raises(ValidationError):
        MemoryRecord(**{"scope": "s", "key": "k", "value": 1, **wrong})


def test_kinds_are_texts() -> None:
    """There are three."""
    assert list(MemoryKind) == ["episodic", "semantic", "procedural"]
