"""The bytes of every type of event, as they were first written."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refold.domain.log.envelope import Event, encode_payload
from refold.infrastructure.log.codec import CODEC

from .files import EVENT_FOLDER, FOLDER, current_tags, event_files, known_events, view, write_missing

FILES = dict(event_files())
EXAMPLES = [(tag, example) for tag, content in FILES.items() for example in content["examples"]]
KNOWN = [(tag, number, event) for tag, events in known_events().items() for number, event in enumerate(events)]


def test_every_type_of_event_has_a_file() -> None:
    """A new tag needs known events, and a file."""
    unknown, missing = current_tags() - set(known_events()), current_tags() - set(FILES)

    assert not unknown, "add to EVENTS, in tests/golden/known.py, one with its defaults and one with all of its fields"
    assert not missing, "`python -m tests.golden.write` writes their files, in tests/golden/events"


def test_files_are_named_after_their_tags() -> None:
    """And the tag is in each example."""
    for tag, content in FILES.items():
        assert content["tag"] == tag
        assert [example["view"]["t"] for example in content["examples"]] == [tag] * len(content["examples"])


@pytest.mark.parametrize(("tag", "number", "event"), KNOWN, ids=lambda value: str(value) if type(value) is str else "")
def test_events_are_encoded_as_ever(tag: str, number: int, event: Event) -> None:
    """The same event gives the same bytes, to the bit, today and tomorrow."""
    assert encode_payload(event).hex() == FILES[tag]["examples"][number]["hex"]


@pytest.mark.parametrize(("tag", "number", "event"), KNOWN, ids=lambda value: str(value) if type(value) is str else "")
def test_events_are_decoded_as_ever(tag: str, number: int, event: Event) -> None:
    """The same bytes give the same event."""
    stored = bytes.fromhex(FILES[tag]["examples"][number]["hex"])

    assert CODEC.decode(stored, tag) == event


@pytest.mark.parametrize(("tag", "example"), EXAMPLES, ids=lambda value: str(value) if type(value) is str else "")
def test_every_file_can_still_be_read(tag: str, example: dict[str, Any]) -> None:
    """Also that of a tag that is not written any more; its view says what is in the bytes."""
    stored = bytes.fromhex(example["hex"])

    assert view(msgspec.msgpack.decode(stored)) == example["view"]
    assert isinstance(CODEC.decode(stored, tag), msgspec.Struct)


def test_fields_of_tomorrow_are_ignored() -> None:
    """A field that a later version adds does not keep an earlier one from reading the event."""
    for tag, events in known_events().items():
        more = {**msgspec.msgpack.decode(encode_payload(events[-1])), "added_tomorrow": [1]}

        assert CODEC.decode(msgspec.msgpack.encode(more), tag) == events[-1]


def test_writing_touches_no_file_that_exists(tmp_path: Path) -> None:
    """Only what is missing is written, and it is what lies in the project."""
    for name in ("events", "rows"):
        shutil.copytree(FOLDER / name, tmp_path / name)
    changed, removed = sorted((tmp_path / "events").glob("*.json"))[:2]
    changed.write_text("changed")
    removed.unlink()

    written = write_missing(tmp_path)

    assert written == [removed, tmp_path / "envelope.json"]
    assert changed.read_text() == "changed"
    assert removed.read_bytes() == (EVENT_FOLDER / removed.name).read_bytes()
    assert (tmp_path / "envelope.json").read_bytes() == (FOLDER / "envelope.json").read_bytes()
