"""What a random life of runs stands on: the rounds of a session, two handles on each, and comparing them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from refold.domain.errors import ConcurrencyError
from refold.domain.trajectory.run import Run
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from .lives import LogLife
from .run_checking import check_shown, check_thoroughly
from .run_model import STEPS_MAX, Refused, Rules
from .run_view import Key, Op, Other, Restore, View

KEYS: list[Key] = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (2, 1)]
NUMBER = st.integers(0, 1_000)
# A handle: of which of the two stores, and on which run.
Place = tuple[int, Key]


class RunLife(LogLife):
    """The rounds of one session, seen from two stores on one log."""

    def begin(self) -> None:
        """Open the log, with nothing in it."""
        type(self).lives += 1
        self.session = f"{type(self).__name__}/{self.lives}"
        self.streams: dict[Key, list[Op]] = {}
        self.is_written = True
        self.open_stores()

    def open_stores(self) -> None:
        """Open the log, and two stores on it that hold no run yet."""
        self.log = self.open_log()
        self.stores = [Store(self.log, MemoryProjectionStore()) for _ in range(2)]
        self.runs: dict[Place, Run] = {}
        # The version that each handle has reached.
        self.seen: dict[Place, int] = {}

    def teardown(self) -> None:
        """Look at everything closely once more, and close the log."""
        if hasattr(self, "log"):
            try:
                for place in self.runs:
                    self.check_again(place)
            finally:
                self.log.close()

    # Handles

    def open_run(self, place: Place, *, restore: bool = True) -> Run:
        """Open a run by a store, or create it; who holds it already gets the same object."""
        number, (round_number, sub) = place
        run = self.stores[number].run("mia", self.session, round_number, sub, restore=restore)
        run.steps_max = STEPS_MAX
        if place in self.runs:
            assert run is self.runs[place]
            return run
        if place[1] not in self.streams:
            self.streams[place[1]] = [Other("opened")]
            pins = self.pins(place[1])
            if restore and round_number and not sub and pins:
                self.streams[place[1]].append(Restore(tuple(pins)))
        self.runs[place], self.seen[place] = run, len(self.streams[place[1]])
        return run

    def pins(self, key: Key, sub: int | None = None) -> list[tuple[Key, int]]:
        """Return the rounds before one, each at its head: those of its agent or of another."""
        earlier = [(number, key[1] if sub is None else sub) for number in range(key[0])]
        return [(one, len(self.streams[one])) for one in earlier if one in self.streams]

    def pick(self, number: int) -> Place:
        """Return the handle with a number."""
        places = list(self.runs)
        return places[number % len(places)]

    def view(self, place: Place, version: int | None = None) -> View:
        """Return what a handle should show: at its version, or at another one."""
        return View(self.streams, place[1], self.seen[place] if version is None else version)

    def name(self, place: Place, number: int) -> str:
        """Return a name of a node that a handle shows, plain or with its number; or one that means nothing."""
        view = self.view(place)
        if number % 17 == 0 or not view.living:
            return "Table(nowhere)"
        node = view.living[number % len(view.living)]
        numbered = "{}({})#{}".format(*view.kind(node), view.numbers[node])
        return numbered if number % 3 == 0 else view.names[node]

    # Calls

    def act(
        self, place: Place, call: Callable[[Run], Any], decide: Callable[[Rules], list[Op]], *, catch_up: bool
    ) -> Any:
        """Make a call by a handle, and do the same to the model: both carry it out, or both refuse it."""
        run, key = self.runs[place], place[1]
        head, result = len(self.streams[key]), None
        try:
            ops = decide(Rules(self.view(place)))
            if ops and self.seen[place] < head:
                if not catch_up:
                    raise Refused(ConcurrencyError)
                self.seen[place] = head
                ops = decide(Rules(self.view(place)))
        except Refused as refused:
            with pytest.raises(refused.error):
                call(run)
        else:
            result = call(run)
            self.streams[key] += ops
            self.seen[place] = len(self.streams[key]) if ops else self.seen[place]
        self.check(place)
        return result

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Let what is done within the block not be in the log yet."""
        self.is_written = False
        try:
            yield
        finally:
            self.is_written = True

    def check(self, place: Place) -> None:
        """Compare a handle with the model; nobody else has written to its stream."""
        run = self.runs[place]
        assert run.version == self.seen[place]
        if self.is_written:
            assert self.log.head(run.stream_id) == len(self.streams[place[1]])
        check_shown(run, self.view(place))

    def check_again(self, place: Place) -> None:
        """Compare a handle with the model in every respect, and with what is read anew."""
        run = self.runs[place]
        self.check(place)
        check_thoroughly(run, self.view(place))
        another = Store(self.log, MemoryProjectionStore()).run("mia", self.session, *place[1], create=False)
        check_shown(another, self.view(place, len(self.streams[place[1]])))
        if another.version == run.version:
            assert another.graph() == run.graph()
            assert another.steps() == run.steps()
            assert another.messages() == run.messages()
            assert another.names() == run.names() == dict(self.view(place).said("named"))
            assert [another.node(name) for name in another.nodes()] == [run.node(name) for name in run.nodes()]
        run.cleanup()
        self.seen[place] = len(self.streams[place[1]])
        self.check(place)

    @invariant()
    def handles_stay_where_they_are(self) -> None:
        """Whatever was done to one run, all others show what they should."""
        for place, run in getattr(self, "runs", {}).items():
            assert run.version == self.seen[place]
            assert set(run.get_active_branch()) <= set(run.graph().nodes)
