"""Stores whose digests are keyed: nobody without the keys can compute one."""

from pathlib import Path

import pytest

import refold
from refold.domain.errors import DamagedError
from refold.infrastructure.trust.keys import KeyFile

from .forging import Place, rechained
from .test_witness import texts_of


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    """A file of keys that does not exist yet."""
    return KeyFile(tmp_path / "keys.json")


def filled(place: Place, keys: KeyFile) -> None:
    """Write a short chat."""
    with refold.open(place.url, keys=keys) as store:
        for text in ("one", "two", "six"):
            store.chat("b").add_message("user", text)


def test_with_a_witness(place: Place, keys: KeyFile) -> None:
    """An encrypted store has a witness as others have; what it says, and what is proved, holds without keys."""
    filled(place, keys)

    with place.open(keys=keys) as store:
        store.chat("b").add_message("user", "more")
        assert texts_of(store, "b") == ["one", "two", "six", "more"]
        proof = store.prove("chat:b@2")
        assert proof["is_keyed"]
    with place.open(keys=keys) as store:
        assert store.verify().problems == ()
        store.chat("b").add_message("user", "last")
    place.remove(place.rows("chat:b")[-1])
    with pytest.raises(refold.TamperedError, match="the log ends before it"):
        place.open(keys=keys)


def test_a_forged_event_is_refused_without_a_witness(place: Place, keys: KeyFile) -> None:
    """A digest that was computed without the key is wrong, also at the end of the log."""
    filled(place, keys)
    *_, last = place.rows("chat:b")
    forged = last._replace(version=last.version + 1, position=last.position + 1)
    place.add(next(rechained("chat:b", [forged], last.digest)))

    with refold.open(place.url, keys=keys) as store, pytest.raises(DamagedError, match="does not match its digest"):
        pytest.fail(f"{texts_of(store, 'b')} were served")
