"""Who is let in, and who makes room (SPEC A2.16)."""

from refold.domain.window.items import ContextItem
from refold.domain.window.window import ContextWindow
from tests.support.effort import calls_of

from .windows import item, keys, kinds, left, refused


def full_of(*items: ContextItem, max_tokens: int = 18) -> ContextWindow:
    """Return a window in which less important items make room."""
    return ContextWindow(max_tokens, items, policy="evict_lower_priority")


def test_first_come_first_served() -> None:
    """The default is the seed's: priority plays no part."""
    window = ContextWindow(6, [item("a")])

    assert not window.add(item("z", priority=9))
    assert (keys(window), refused(window)) == ("a", "z")


def test_lower_priorities_leave_first() -> None:
    """The lowest of all, and of those the one that came last; the beginning of the text stays."""
    window = full_of(item("a", priority=1), item("b"), item("c"))

    assert window.add(item("d", priority=2))
    assert window.add(item("e", priority=2))
    assert (keys(window), left(window)) == ("ade", [("c", "room", None), ("b", "room", None)])
    assert kinds(window)[3:] == ["evicted", "added", "evicted", "added"]


def test_no_more_leave_than_must() -> None:
    """One large item makes room for two small ones, and small ones only as many as it takes."""
    window = full_of(item("a", size=25), item("b", size=25), item("c", size=25))

    assert window.add(item("d", size=45, priority=1))
    assert (keys(window), window.estimated_tokens()) == ("ad", (25 + 45) // 4)


def test_equal_priorities_stay() -> None:
    """Only what matters less makes room."""
    window = full_of(item("a"), item("b"), item("c"))

    assert not window.add(item("d"))
    assert not window.add(item("e", priority=-1))
    assert (keys(window), kinds(window)[3:]) == ("abc", ["dropped", "dropped"])


def test_nobody_leaves_in_vain() -> None:
    """An item that does not fit even then is dropped, and nothing happens to the others."""
    window = full_of(item("a"), item("b", priority=5), item("c"))

    assert not window.add(item("z", size=60, priority=1))
    assert window.dropped()[0].tokens == (72 + 60) // 4
    assert (keys(window), left(window)) == ("abc", [])


def test_a_put_makes_room() -> None:
    """What it replaces counts as gone, and is not evicted beside it."""
    window = full_of(item("a", priority=1), item("k"), item("b"))

    assert window.put(item("k", size=48, priority=2))
    assert (keys(window), left(window)) == ("ak", [("b", "room", None), ("k", "replace", None)])
    assert not window.put(item("k", size=90, priority=2))
    assert keys(window) == "ak"


def test_a_replaced_item_keeps_its_rank() -> None:
    """It stands where it stood, also among those that leave: what came behind it goes first."""
    window = full_of(item("k", priority=1), item("a"), item("b"))
    window.put(item("k"))
    window.add(item("z", priority=1))

    assert keys(window) == "kaz"


def test_every_priority_is_in_order() -> None:
    """Negative ones, and floats."""
    window = full_of(ContextItem("a", "vv", "s", -1), ContextItem("b", "vv", "s", -2), ContextItem("c", "vv", "s"))

    assert window.add(ContextItem("d", "vv", "s", -1.5))  # type: ignore[arg-type]
    assert (keys(window), left(window)) == ("acd", [("b", "room", None)])


def test_an_add_costs_the_same() -> None:
    """A2.17: to add is the same work at item 2,000 as at item 100, also of one key; the seed sums all of them."""
    window = ContextWindow(10**9)

    def add(count: int) -> None:
        for _ in range(count):
            window.add(item("k"))

    add(100)
    young = calls_of(lambda: add(50))
    add(1_850)
    assert calls_of(lambda: add(50)) <= young * 1.1
