"""What a chat held in the past, summed up from blocks of versions."""

import pytest

from refold import Store
from refold.projections import growth
from refold.projections.contract import Projection
from refold.projections.growth import GROWTH_EVENTS
from refold.projections.rows import version_key
from refold.projections.steps import STEPS
from refold.projections.usage import USAGE


@pytest.mark.parametrize("other", ["a !", "a0000000001", "b"])
def test_ids_that_begin_alike(store: Store, other: str) -> None:
    """The counts of a context are its own, whatever others are called."""
    chats = [store.chat("a"), store.chat(other)]
    for chat in chats:
        with store.transaction():
            for number in range(GROWTH_EVENTS + 10):
                chat.add_message("user", f"message {number}")
    then = store.at(store.now()).chat("a")

    assert then.turn_count() == GROWTH_EVENTS + 10
    assert then.estimated_tokens() == chats[0].estimated_tokens()


def test_keys_are_in_the_order_of_versions() -> None:
    """The keys of a stream sort as its versions do."""
    keys = [version_key("chat:a", number) for number in (0, 1, 9, 10, 99, 100, 12_345)]

    assert keys == sorted(keys)


def test_what_a_row_counts(store: Store) -> None:
    """Events, items, turns and tokens of its versions, from nothing on."""
    chat = store.chat("a")
    for number in range(4):
        chat.add_message(("user", "assistant")[number % 2], "12345678")

    chat.turn_count()
    store._runner.catch_up(growth.GROWTH)
    (row,) = store._runner.rows(growth.GROWTH)
    first = chat.history()[0]
    assert row == growth.GrowthRow(
        key=version_key("chat:a", 0),
        first_number=first.position.number,
        first_at=first.recorded_at,
        events=5,
        items=4,
        turns=2,
        tokens=chat.estimated_tokens(),
    )


@pytest.mark.parametrize("projection", [growth.GROWTH, STEPS, USAGE], ids=lambda one: str(one.name))
def test_event_by_event(store: Store, projection: Projection) -> None:
    """A row to which events come one by one is what all of them make together."""
    chat = store.chat("a")
    for role in ("user", "assistant", "assistant"):
        chat.add_message(role, "12345678")
    events = [one for one in chat.history() if projection.keys(one)]
    (key,) = {key for one in events for key in projection.keys(one)}
    assert events

    row = None
    for event in events:
        row = projection.evolve(key, row, event)

    assert row is not None
    assert row == projection.evolve_all(key, None, events)  # type: ignore[attr-defined]  # these three have it
