"""Turns and tokens of a past chat are known without reading it: by sums of blocks, and the events behind them."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.domain.totals import Totals
from refold.infrastructure.queries import at as counting
from refold.infrastructure.queries.at import StoreAt, totals_at
from refold.projections import growth
from tests.domain.strategies import PROPERTY
from tests.support.effort import pages_read

from .cuts import cuts, folded
from .lives import ChatsLife

FEW = 4


@pytest.fixture(autouse=True)
def small_blocks() -> Iterator[None]:
    """Let a block be a few versions, so that short lives have many."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (growth, counting):
            patch.setattr(module, "GROWTH_EVENTS", FEW)
        yield


def require_right_counts(store: refold.Store) -> None:
    """Compare, at every version of every chat, what is said before it is read with what is there."""
    for row in store.contexts():
        chat = store.chat(row.id)
        for event in chat.history():
            then = store.at(f"pos:{event.position}").chat(row.id)
            counted = then.version, then.turn_count(), then.estimated_tokens()
            assert not then._source.is_loaded
            loaded = chat.at(event.version)
            items = loaded.recorded_items()
            assert counted == (event.version, loaded.turn_count(), loaded.estimated_tokens())
            assert (then._totals, then.to_dict()) == (items.totals, loaded.to_dict())


@PROPERTY
@given(st.integers(0, 10**6))
def test_every_edit_is_counted(seed: int) -> None:
    """Whatever was done to a chat, and however deep it was forked, at the borders of blocks too."""
    with refold.open(":memory:") as store:
        ChatsLife(store, seed).go_on(30)

        require_right_counts(store)


def test_on_every_store(store: refold.Store) -> None:
    """The same on all of them."""
    ChatsLife(store, 7).go_on(60)

    require_right_counts(store)


class Counting:
    """A log that counts what is read of it."""

    def __init__(self, log: Any) -> None:
        self._log, self.events = log, 0

    def read_events(self, *args: Any, **options: Any) -> Any:
        """Read, and count."""
        found = self._log.read_events(*args, **options)
        self.events += len(found)
        return found


@PROPERTY
@given(st.integers(0, 10**6))
def test_the_catalogue_over_many_blocks(seed: int) -> None:
    """At each moment and at each time it is the fold of the events up to there, wherever blocks begin and end."""
    with refold.open(":memory:") as store:
        ChatsLife(store, seed).go_on(25)
        found = cuts(store.log)
        events = found[-1][1]

        for moment, _ in found:
            assert store.at(moment).contexts() == folded(
                [one for one in events if one.position.number <= moment.events]
            )
        for time in {one.recorded_at for one in events}:
            then = StoreAt(store, time).contexts()
            assert then == folded([one for one in events if one.recorded_at <= time])


def test_the_catalogue_of_the_past_reads_no_event(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made from rows; a difference reads the events between its moments, and no more."""
    chats = [store.chat(name) for name in ("a", "b", "c")]
    moments = []
    for number in range(4 * FEW):
        chats[number % 2].add_message("user", f"text {number}")
        moments.append(store.now())
    early, late = moments[FEW], moments[FEW + 3]
    wanted = store.at(early).contexts(), store.at(late).contexts()
    pages = pages_read(store, monkeypatch)
    for name in ("read", "read_events", "read_ranges", "version_at"):
        monkeypatch.setattr(type(store.log), name, None)

    assert (store.at(early).contexts(), store.at(late).contexts()) == wanted
    assert sum(pages) == 0
    assert [(one.before, one.after) for one in store.diff(early, late)] == list(zip(*wanted, strict=True))[:2]
    assert sum(pages) == 3


@pytest.mark.parametrize("version", [1, 3, 4, 5, 7, 8, 9, 40])
def test_little_is_read(store: refold.Store, version: int) -> None:
    """No more than the events behind the last whole block; a block that is whole needs none."""
    chat = store.chat("a")
    store.chat("a.b").add_message("user", "another chat, whose name begins in the same way")
    for number in range(39):
        chat.add_message("user", "x" * number)
    log: Any = Counting(store.log)

    totals = totals_at(log, store._runner, "chat:a", version)

    assert totals == chat.at(version).recorded_items().totals
    assert log.events == version % FEW


def test_blocks_are_kept_as_they_grow(store: refold.Store) -> None:
    """What is asked for in between changes nothing, and so does what the next one adds to the last block."""
    chat, wanted = store.chat("a"), list[Totals]()
    for number in range(3 * FEW):
        chat.add_message("user", "x" * number)
        chat.truncate(max_items=5)
        wanted.append(chat.recorded_items().totals)
        assert store.at(store.now()).chat("a").estimated_tokens() == chat.estimated_tokens()
    versions = [event.version for event in chat.history()]

    assert versions[-1] > 4 * FEW
    assert [totals_at(store.log, store._runner, "chat:a", versions[-1])] == wanted[-1:]
    assert store.check("growth").differing == 0
