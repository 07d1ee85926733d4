"""What export, import and copy say, step by step, with the made-up histories: see tests/golden/told/moved."""

import json
import re
import shlex
from pathlib import Path

import pytest

from refold.infrastructure import demo
from tests.cli.running import refold
from tests.support.written_down import UNTIL, assert_as_written, stop_clock

STEPS = """
demo.db export -o all.jsonl
demo.db export refund-7Q2KLM-softer heron-draft -o some.jsonl
demo.db export nobody -o none.jsonl
demo.db export -o folder/all.jsonl
demo.db export heron-report-short --as atif -o chat.json
demo.db export desk --as atif -o queue.json
demo.db export refund-7Q2KLM@20 flaky-test-two-models --as sharegpt -o chats.json
all.db import all.jsonl
all.db import all.jsonl
all.db verify
some.db import some.jsonl
some.db import all.jsonl
some.db show refund-7Q2KLM-softer --tail 2
chats.db import chat.json chats.json
chats.db import chats.json --as-runs --prefix again --user kim
chats.db contexts
chats.db log --limit 3 --jsonl
chats.db import chats.json
demo.db copy demo.db copy.db
demo.db copy demo.db copy.db
copy.db verify
copy.db fork refund-7Q2KLM second
demo.db copy demo.db copy.db
demo.db copy demo.db some.db
demo.db copy demo.db demo.db
demo.db copy nothing.db copy2.db
demo.db copy --move demo.db moved.db
demo.db fork refund-7Q2KLM never
demo.db init --reopen
demo.db fork refund-7Q2KLM third
moved.db contexts --at pos:300
all.db export -o again.jsonl
"""
# Of the store itself and of rebuilds: different each time.
VARYING = re.compile(r"[\d.]+ m?s\b|[\d.]+ seconds\b|[0-9a-f]{32,64}")


def test_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each after those before it; what was exported and taken in again is exported as it was."""
    stop_clock(monkeypatch)
    demo.fill_store(str(tmp_path / "demo.db"), size="small", until=UNTIL)
    monkeypatch.chdir(tmp_path)
    told = []
    for line in STEPS.strip().splitlines():
        place, *words = shlex.split(line)
        ended = refold(*words, db=Path(place))
        told.append(f"$ {line}\n{ended.out}{ended.err}[ends with {ended.code}]\n")

    assert_as_written("moved", VARYING.sub("...", "\n".join(told)).replace(str(tmp_path), "FOLDER"))
    assert events_in("again.jsonl") == events_in("all.jsonl")


def events_in(file: str) -> list[str]:
    """Return what a file says of each event but when it was recorded, which is when it was taken in."""
    lines = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    return sorted(json.dumps([line["stream"], line["version"], line["event"]]) for line in lines if "event" in line)
