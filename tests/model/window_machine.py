"""The random life of a context window in a log: two handles, a budget that is soon full, and everything it can do."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from refold.domain.errors import ConcurrencyError, LimitExceededError, NotFoundError
from refold.domain.window.items import ContextItem
from refold.domain.window.window import ContextWindow
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..contract.writing import check_chain
from .lives import LogLife
from .window_model import Item, Said, Shot, WindowModel

SAID = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["", "x", "v" * 9, "日本", "L" * 5_000]),
    st.sampled_from(["s", "tool"]),
    st.integers(-1, 2),
)
HANDLES = ("one", "two")
HANDLE = st.sampled_from(HANDLES)
BUDGET = st.sampled_from([0, 11, 18, 30, 2_000])
PICK = st.lists(st.integers(0, 9), min_size=1, max_size=3)


class WindowMachine(LogLife):
    """A window with handles; subclass it with `open_log`."""

    @initialize(max_tokens=BUDGET, makes_room=st.booleans())
    def begin(self, max_tokens: int, makes_room: bool) -> None:
        """Open a window, and two handles."""
        self.begin_life()
        policy: Any = "evict_lower_priority" if makes_room else "first_come"
        self.model = WindowModel(max_tokens, makes_room=makes_room)
        Store(self.log, MemoryProjectionStore()).window(self.life, max_tokens=max_tokens, policy=policy)
        self.open_handles()

    def open_handles(self) -> None:
        store = Store(self.log, MemoryProjectionStore())
        self.windows = {name: store.window(self.life) for name in HANDLES}

    @rule(name=HANDLE, said=SAID, instead=st.booleans())
    def arrive(self, name: str, said: Said, instead: bool) -> None:
        """Add an item or put it: the handle catches up by itself."""
        window = self.windows[name]
        call = window.put if instead else window.add

        is_in = call(ContextItem(*said))

        assert is_in == self.model.arrive(said, instead=instead)
        assert window.version == self.model.version

    @rule(name=HANDLE, number=st.integers(0, 9))
    def put_what_is_there(self, name: str, number: int) -> None:
        """Put an item that the handle shows: where others have changed it since, that is a change."""
        shown = self.windows[name].items
        if shown:
            item = shown[number % len(shown)]
            said = (item.key, item.value, item.source, item.priority)
            assert self.windows[name].put(item) == self.model.arrive(said, instead=True)

    @rule(name=HANDLE, said=SAID)
    def repeat(self, name: str, said: Said) -> None:
        """Add an item under a key, twice: the second time nothing happens."""
        window, key = self.windows[name], str(self.model.version)
        first = window.add(ContextItem(*said), idempotency_key=key)
        assert first == self.model.arrive(said, instead=False)
        assert window.add(ContextItem(*said), idempotency_key=key) == first

    @rule(name=HANDLE, picked=PICK)
    def evict(self, name: str, picked: list[int]) -> None:
        """Have some items leave."""
        leaving = self.pick(self.model.now.items, picked)
        if leaving:
            self.edit(name, lambda window: window.evict(*self.births(leaving)), lambda: self.model.take_out(leaving))

    @rule(name=HANDLE, key=st.sampled_from(["a", "b", "c"]))
    def remove(self, name: str, key: str) -> None:
        """Have the items with a key leave; where there are none, it is refused."""
        leaving = [item for item in self.model.now.items if item.said[0] == key]
        if leaving:
            self.edit(name, lambda window: window.remove(key), lambda: self.model.take_out(leaving))
            return
        self.windows[name].refresh()
        with pytest.raises(NotFoundError):
            self.windows[name].remove(key)

    @rule(name=HANDLE, picked=PICK)
    def restore(self, name: str, picked: list[int]) -> None:
        """Take back some that left, or that were dropped: refused where there is no room."""
        now = self.model.now
        coming = self.pick((*now.left, *now.dropped), picked)
        names = self.births(coming)
        if not coming:
            return
        if now._replace(items=(*now.items, *coming)).tokens <= now.max_tokens:
            self.edit(name, lambda window: window.restore(*names), lambda: self.model.take_back(coming))
            return
        self.windows[name].refresh()
        with pytest.raises(LimitExceededError):
            self.windows[name].restore(*names)

    @rule(name=HANDLE)
    def clear(self, name: str) -> None:
        """Have everything leave."""
        items = list(self.model.now.items)
        if items:
            self.edit(name, lambda window: window.clear(), lambda: self.model.take_out(items))

    @rule(name=HANDLE, max_tokens=BUDGET)
    def set_budget(self, name: str, max_tokens: int) -> None:
        """Set another budget; nothing leaves."""
        self.windows[name].refresh()
        self.windows[name].max_tokens = max_tokens
        self.model.set_budget(max_tokens)

    def edit(self, name: str, change: Callable[[ContextWindow], None], happens: Callable[[], None]) -> None:
        """Make a change by a handle; one that is behind changes nothing."""
        window = self.windows[name]
        if window.version < self.model.version:
            before = window.version
            with suppress(ConcurrencyError, NotFoundError, LimitExceededError):
                change(window)
            assert (window.version, self.log.head(window.stream_id)) == (before, self.model.version)
            window.refresh()
        change(window)
        happens()

    def pick(self, items: tuple[Item, ...], picked: list[int]) -> list[Item]:
        """Return some of the items, each once."""
        chosen = dict.fromkeys(items[number % len(items)] for number in picked) if items else {}
        return list(chosen)

    def births(self, items: list[Item]) -> list[str]:
        """Return the names of items."""
        return [f"window:{self.life}@{item.born}" for item in items]

    @rule(name=HANDLE, number=st.integers(0, 60))
    def look_at_the_past(self, name: str, number: int) -> None:
        """At a version that the handle has seen, by its number and by its position."""
        window = self.windows[name]
        version = number % (window.version + 1)
        self.check(window.at(version), self.model.shots[version])
        if version:
            (event,) = window.recorded_events(after=version - 1, until=version)
            self.check(window.at(f"pos:{event.position}"), self.model.shots[version])

    @rule(name=HANDLE)
    def refresh(self, name: str) -> None:
        """Catch up."""
        missing = self.model.version - self.windows[name].version
        assert len(self.windows[name].refresh()) == missing

    @rule(name=HANDLE)
    def read_again(self, name: str) -> None:
        """Let go of what is in memory: it is read from the log again, at its end."""
        self.windows[name].cleanup()
        check_chain(self.windows[name].recorded_events())

    def check(self, window: ContextWindow, shot: Shot) -> None:
        """Compare a view with the model."""
        assert [(one.key, one.value, one.source, one.priority) for one in window.items] == [
            item.said for item in shot.items
        ]
        assert window.births == self.births(list(shot.items))
        assert (window.estimated_tokens(), window.max_tokens) == (shot.tokens, shot.max_tokens)
        assert window.build() == shot.build()
        assert [one.born for one in window.dropped()] == self.births(list(shot.dropped))
        assert sorted(one.born for one in window.evicted()) == sorted(self.births(list(shot.left)))

    @invariant()
    def views_are_versions(self) -> None:
        """Whatever a handle has seen, its view is what the window was at its version."""
        for window in getattr(self, "windows", {}).values():
            self.check(window, self.model.shots[window.version])
