"""The catalogue page by page, with filters and a cursor."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import refold
from refold import InvalidInputError, Store
from refold.infrastructure.queries.pages import ContextPage, row_page
from refold.projections.catalogue import CatalogueRow

CONTEXTS = 23


def filled(store: Store) -> Store:
    """Return the store with chats of two users, and a pool."""
    for number in range(CONTEXTS):
        store.chat(f"c{number:02}", user=("mia", "tom")[number % 2], session=f"s{number % 3}")
    store.pool("p", user="mia", agent="triage")
    return store


def pages(store: Store, **wish: object) -> Iterator[ContextPage]:
    """Yield all pages of a wish."""
    cursor = None
    while True:
        page = store.find_contexts(cursor=cursor, **wish)  # type: ignore[arg-type]
        yield page
        cursor = page.cursor
        if cursor is None:
            return


def walked(store: Store, **wish: object) -> list[CatalogueRow]:
    """Return the contexts of all pages."""
    return [row for page in pages(store, **wish) for row in page.contexts]


def test_pages_have_everything_once(store: Store) -> None:
    """Whatever the size of a page, all contexts come in order."""
    filled(store)
    for limit in (1, 7, 23, 24, 25, 1000):
        assert walked(store, limit=limit) == store.contexts()
        assert all(len(page.contexts) <= limit for page in pages(store, limit=limit))


def test_filters(store: Store) -> None:
    """Each filter is that of a field of the rows, and they go together."""
    filled(store)
    rows = store.contexts()
    assert walked(store, user="tom", limit=4) == [row for row in rows if row.user == "tom"]
    assert walked(store, kind="pool", limit=4) == [row for row in rows if row.kind == "pool"]
    assert walked(store, kind="chat", session="s1", user="mia", limit=2) == [
        row for row in rows if (row.kind, row.session, row.user) == ("chat", "s1", "mia")
    ]
    assert [row.id for row in walked(store, agent="triage")] == ["p"]
    assert walked(store, agent="nobody") == []


def test_times(store: Store) -> None:
    """The time is that of the last change; the end is not included."""
    filled(store)
    store.chat("c05").add_message("user", "late")
    late = next(row for row in store.contexts() if row.id == "c05").changed_at
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=late)

    assert [row.id for row in walked(store, since=time, limit=3)] == ["c05"]
    assert "c05" not in [row.id for row in walked(store, until=time, limit=3)]


def test_times_of_many_contexts(store: Store) -> None:
    """All that changed in a time come once, whatever the size of a page; none changed before the first of all."""
    filled(store)
    beginning, end = (datetime(year, 1, 1, tzinfo=UTC) for year in (1960, 9999))
    for limit in (1, 7, 24):
        assert walked(store, since=beginning, limit=limit) == store.contexts()
        assert walked(store, since=beginning, until=end, user="mia", limit=limit) == walked(store, user="mia")
    assert walked(store, until=beginning) == walked(store, since=end) == []


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"kind": "chats"}, "no kind of context 'chats'"),
        ({"limit": 0}, "limit is 0"),
        ({"limit": 1001}, "limit is 1001"),
        ({"since": datetime(2026, 1, 1)}, "no time zone"),
    ],
)
def test_bad_wishes(store: Store, wish: dict[str, object], message: str) -> None:
    """The error says what was wrong."""
    with pytest.raises(InvalidInputError, match=message):
        store.find_contexts(**wish)  # type: ignore[arg-type]


def test_rows_of_a_projection_by_their_keys() -> None:
    """Page by page those that begin so, also one whose key is nothing else; a cursor is the last key."""
    with refold.open(":memory:") as store:
        for name in ("b", "c", "c1", "c2", "c20", "d"):
            store.chat(name)
        keys = ["chat:c", "chat:c1", "chat:c2", "chat:c20"]
        pages = {
            1: [keys[:1], keys[1:2], keys[2:3], keys[3:]],
            2: [keys[:2], keys[2:]],
            3: [keys[:3], keys[3:]],
            4: [keys],
            5: [keys],
        }
        for limit, wanted in pages.items():
            cursor, found = None, []
            for page in wanted:
                rows, cursor = row_page(store._runner, "catalogue", under="chat:c", limit=limit, cursor=cursor)
                found.append([row.key for row in rows])
                assert cursor == (None if page is wanted[-1] else page[-1])
            assert found == wanted
        for under, cursor, wanted_keys in (("chat:c3", None, []), ("chat:c", "chat:d", []), ("chat:c", "a", keys)):
            rows, more = row_page(store._runner, "catalogue", under=under, limit=9, cursor=cursor)
            assert ([row.key for row in rows], more) == (wanted_keys, None)
