"""What is different at two moments, context by context; and what there was at each of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.infrastructure.queries.at import ContextDifference
from tests.domain.strategies import PROPERTY
from tests.support.every_kind import fill

from .cuts import cuts, folded
from .lives import ChatsLife


def versions(found: list[ContextDifference]) -> dict[str, tuple[int, int]]:
    """Return the versions of each context at both moments; 0 where there was none."""
    return {one.key: (one.before.version if one.before else 0, one.after.version if one.after else 0) for one in found}


async def test_both_ways(store: refold.Store) -> None:
    """What is new, what went on, and what stayed; from the later moment to the earlier one it is the reverse."""
    old, same = store.chat("a"), store.window("w")
    same.add(refold.BudgetItem("k", "v", "s"))
    before = store.now()
    old.add_message("user", "one")
    await store.pool("p").add(refold.PoolItem("x", "", "i"))

    there, back = store.diff(before, store.now()), store.diff(store.now(), before)

    assert versions(there) == {"chat:a": (1, 2), "pool:p": (0, 2)}
    assert versions(back) == {"chat:a": (2, 1), "pool:p": (2, 0)}
    assert [(one.before, one.after) for one in back] == [(one.after, one.before) for one in there]
    assert [(one.kind, one.id) for one in there] == [("chat", "a"), ("pool", "p")]
    assert store.diff(before) == there
    assert store.diff(before, before) == store.diff(store.now()) == []


def test_every_way_to_say_when(store: refold.Store) -> None:
    """Names, positions and times, one of each; what is no moment is refused."""
    chat = store.chat("a")
    store.name_moment("begun")
    chat.add_message("user", "one")

    assert versions(store.diff("1999-01-01T00:00:00Z", "begun")) == {"chat:a": (0, 1)}
    assert versions(store.diff("begun", "9999-01-01T00:00:00Z")) == {"chat:a": (1, 2)}
    assert versions(store.diff(f"pos:{chat.history()[0].position}")) == {"chat:a": (1, 2)}
    with pytest.raises(InvalidInputError):
        store.diff("begun", "2")
    with pytest.raises(NotFoundError):
        store.diff("begun", "unheard-of")


async def test_between_any_two_moments(store: refold.Store) -> None:
    """What changed is what the events between them are about, whatever kind of context it is."""
    await fill(store)
    found = cuts(store.log, step=12)

    for (one, events), (other, more) in zip(found, found[3:], strict=False):
        changed = store.diff(one, other)
        then = {row.key: row for row in folded(events)}
        now = {row.key: row for row in folded(more)}
        assert [row.key for row in changed] == sorted({event.stream for event in more[len(events) :]})
        assert all((row.before, row.after) == (then.get(row.key), now.get(row.key)) for row in changed)


@PROPERTY
@given(st.integers(0, 10**6))
def test_the_catalogue_of_any_moment(seed: int) -> None:
    """It is the fold of the log up to there, whatever was done to which context."""
    with refold.open(":memory:") as store:
        ChatsLife(store, seed).go_on(25)

        for moment, events in cuts(store.log):
            assert store.at(moment).contexts() == folded(events)
        assert versions(store.diff("pos:0")) == {row.key: (0, row.version) for row in store.contexts()}
