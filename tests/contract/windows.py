"""The contract of a context window that is kept in a log: handles, conflicts, the past, and what is taken along."""

import pytest

from refold.domain.errors import ConcurrencyError
from refold.domain.log.ports import LiveLog
from refold.domain.window.items import ContextItem
from refold.domain.window.window import ContextWindow
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..domain.window.windows import item, keys, kinds, left, refused
from .writing import at_once, check_chain

LONG = "漢字\x00" * 5_000


def busy(window: ContextWindow) -> None:
    """Have everything happen to a window."""
    window.add(ContextItem("long", LONG, "tool", -3))
    for key in "abc":
        window.add(item(key))
    window.add(item("d", priority=1))
    window.put(ContextItem("a", "ä", "s", 0.5))  # type: ignore[arg-type]
    window.remove("b", reason="stale")
    window.max_tokens = 4_000
    window.restore(window.evicted()[-1].born, window.evicted()[0].born)
    window.name_version("here")
    window.evict(window.births[0])


class WindowContract:
    """What holds for a window, whatever log it lies in. Needs the fixture `log`."""

    def test_a_window_is_read_as_it_was_written(self, log: LiveLog) -> None:
        """Items, settings, what left and what was dropped; now and at every version."""
        store = Store(log, MemoryProjectionStore())
        window = store.window("w", max_tokens=3_780, policy="evict_lower_priority")
        busy(window)

        again = store.window("w")

        assert again._state == window._state
        assert (again.evicted(), again.dropped()) == (window.evicted(), window.dropped())
        assert left(window.at(7))[0] == ("long", "room", None)
        assert again.get("long") == ContextItem("long", LONG, "tool", -3)
        for version in range(window.version + 1):
            assert again.at(version)._state == window.at(version)._state
        check_chain(log.read("window:w"))

    def test_adds_and_puts_catch_up(self, log: LiveLog) -> None:
        """Each decides on what the other has left; the one that comes too late is dropped."""
        store = Store(log, MemoryProjectionStore())
        one, other = store.window("w", max_tokens=12), store.window("w")
        for number, key in enumerate("abc"):
            (one, other)[number % 2].add(item(key))
        other.put(ContextItem("a", "x", "s"))
        one.refresh()

        assert (keys(one), keys(other), refused(one)) == ("ab", "ab", "c")
        assert one.get("a") == ContextItem("a", "x", "s")

    def test_an_edit_is_told(self, log: LiveLog) -> None:
        """ConcurrencyError; the view stays, and a rebase goes through."""
        store = Store(log, MemoryProjectionStore())
        one, other = store.window("w"), store.window("w")
        one.add(item("a"))
        other.refresh()
        one.add(item("b"))

        with pytest.raises(ConcurrencyError) as caught:
            other.remove("a")
        assert (caught.value.expected, caught.value.actual, keys(other)) == (2, 3, "a")
        other.rebase(lambda window: window.remove("a"))
        assert keys(other) == keys(store.window("w")) == "b"

    def test_the_budget_holds_among_threads(self, log: LiveLog) -> None:
        """Four writers with handles of their own: as many come in as there is room for, at every version."""
        store = Store(log, MemoryProjectionStore())
        store.window("w", max_tokens=60)
        came: list[bool] = []

        def write(writer: int) -> None:
            window = store.window("w")
            came.extend([window.add(item(f"{writer}{number}")) for number in range(4)])

        raised = at_once(*(lambda writer=writer: write(writer) for writer in range(4)))

        window = store.window("w")
        assert (raised, came.count(True), len(window.items), len(window.dropped())) == ([], 10, 10, 6)
        assert max(window.at(version).estimated_tokens() for version in range(window.version + 1)) == 60

    def test_a_repeated_call_of_a_window(self, log: LiveLog) -> None:
        """Under its key it is done once, also by a handle that is behind."""
        store = Store(log, MemoryProjectionStore())
        behind = store.window("w", max_tokens=12)
        behind.add(item("a"))
        born = behind.births[0]
        for window in (store.window("w"), store.window("w"), behind):
            assert window.add(item("b"), idempotency_key="add")
            assert not window.add(item("c"), idempotency_key="drop")
            window.remove("a", idempotency_key="remove")
            window.restore(born, idempotency_key="restore")
            assert keys(window) == "ba"

        assert kinds(behind) == ["added", "added", "dropped", "evicted", "restored"]

    def test_a_window_is_taken_along(self, log: LiveLog) -> None:
        """A detached one, with its whole past, into this log."""
        store = Store(log, MemoryProjectionStore())
        window = ContextWindow(3_780, policy="evict_lower_priority")
        busy(window)
        before = [window.at(version).items for version in range(window.version + 1)]
        store.adopt(window, "w")

        again = store.window("w")
        assert [again.at(version).items for version in range(window.version + 1)] == before
        window.restore(window.evicted()[-1].born)
        again.refresh()
        assert again == window
