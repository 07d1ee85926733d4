"""What came in goes out equal: drawn conversations of every shape, and real ones."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import refold
from refold.domain.canonical import canonical_json
from refold.infrastructure.importing import import_file
from tests.domain.strategies import PROPERTY
from tests.importing.openai_strategies import CONVERSATION
from tests.importing.transcripts import kept, written
from tests.support.project import ROOT

REAL = ROOT.parent / "shared" / "data" / "tau_airline_100.json"


@PROPERTY
@given(first=CONVERSATION, later=CONVERSATION)
def test_messages_come_back_as_they_came(first: list[Any], later: list[Any]) -> None:
    """JSON for JSON, from a file through a database and out, at once or in two parts."""
    with tempfile.TemporaryDirectory() as folder:
        database, path = Path(folder, "refold.db"), Path(folder, "x.json")
        for messages in (first, [*first, *later]):
            with refold.open(database, synchronous="NORMAL") as store:
                import_file(store, written(path, {"messages": messages}))
            with refold.open(database, read_only=True) as store:
                (back,) = kept(store).values()
            assert canonical_json(back, what="") == canonical_json(messages, what="")


@PROPERTY
@given(messages=CONVERSATION)
def test_every_version_is_a_beginning(messages: list[Any]) -> None:
    """Seen at the version where a message ends, a context gives the messages up to it."""
    with tempfile.TemporaryDirectory() as folder, refold.open(":memory:") as store:
        import_file(store, written(Path(folder, "x.json"), {"messages": messages}))
        chat = store.chat("x-1", create=False)
        starts = [n for n, item in enumerate(chat.recorded_items()) if item.origin and item.origin.starts]

        for count, start in enumerate(starts):
            assert chat.at(1 + start).to_openai_messages(exact=True) == messages[:count]


@pytest.mark.skipif(not REAL.exists(), reason="shared/data is not beside this checkout")
def test_real_runs_come_back_as_they_came(tmp_path: Path) -> None:
    """A hundred real runs of tau-bench, with repeated call ids, text beside calls and names of tools."""
    runs = json.loads(REAL.read_bytes())
    with refold.open(tmp_path / "refold.db") as store:
        report = import_file(store, REAL, prefix="airline")
        again = import_file(store, REAL, prefix="airline")
    with refold.open(tmp_path / "refold.db", read_only=True) as store:
        back = kept(store)
        attributes = {row.id: store.chat(row.id).history(until=1)[0].event.attributes for row in store.contexts()}

    assert (report.added, again.unchanged, again.items) == (100, 100, 0)
    names = [f"airline-{run['task_id']}.{run['trial']}" for run in runs]
    assert back == {name: run.pop("traj") for name, run in zip(names, runs, strict=True)}
    assert {name: json.loads(kept) for name, kept in attributes.items()} == dict(zip(names, runs, strict=True))
