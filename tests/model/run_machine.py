"""The random life of runs: several rounds and a sub-agent of one session, and all that can be done to them."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError
from refold.domain.messages import HumanMessage
from refold.domain.trajectory.run import Run
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..contract.writing import at_once, check_chain
from .run_checking import check_diff, check_shown
from .run_life import KEYS, NUMBER, Place
from .run_model import REQUIRED, Rules
from .run_view import Key, Node, Op, Other
from .run_work import WORD, RunWork

STORE = st.integers(0, 1)
TYPES = st.sampled_from(["Action", "State", "Table", "Action", "State", "Table", *list(REQUIRED)[1:]])
# Few, so that they meet; some look like what the naming makes of others.
LABELS = st.sampled_from(["", "", "a", "b(c)", "a)#2", "x\n(", "state00001", "table00000"])
EDGES = st.sampled_from([None, "x", "x", "outputs"])
SOME = st.lists(NUMBER, max_size=3)
WHOLE = st.sampled_from([*[True] * 7, False])


def node_of(node_type: str, label: str, words: tuple[str, str], whole: bool, extra: bool) -> Node:
    """Return a node as it is given, whole or with a field that is missing."""
    fields: dict[str, Any] = {name: [words[1], {"n": None}] for name in REQUIRED[node_type][0 if whole else 1 :]}
    return Node(node_type, label, words[0], fields | ({"note": words[0]} if extra else {}))


NODE = st.builds(node_of, TYPES, LABELS, st.tuples(WORD, WORD), WHOLE, st.booleans())
NODES = st.lists(NODE, min_size=1, max_size=4)


class RunMachine(RunWork):
    """Subclass it with `open_log`."""

    @initialize(given=st.tuples(NODES, NODES))
    def two_rounds(self, given: tuple[list[Node], list[Node]]) -> None:
        """Begin with a round, and a second one by another store, which also looks at the first."""
        self.begin()
        self.open_another(0, (0, 0), True, given[0])
        self.open_another(1, (1, 0), True, given[1])
        self.open_run((1, (0, 0)))

    @rule(
        store=STORE,
        key=st.sampled_from(KEYS),
        restore=st.sampled_from([True, True, True, False]),
        given=NODES,
    )
    def open_another(self, store: int, key: Key, restore: bool, given: list[Node]) -> None:
        """Open a run, perhaps a new one, ask a query and register nodes behind it."""
        place = (store, key)
        self.open_run(place, restore=restore)
        self.check(place)
        self.act(place, lambda run: run.register_query("q", []), lambda rules: rules.query("q"), catch_up=True)
        self.grow(place, given)

    # The graph grows

    @rule(number=NUMBER, given=NODES)
    def go_on(self, number: int, given: list[Node]) -> None:
        """Register nodes, each behind the newest one."""
        self.grow(self.pick(number), given)

    def grow(self, place: Place, given: list[Node], *, add: bool = False) -> None:
        """Register nodes, each behind the newest one."""
        for one in given:
            near = list(self.view(place).names.values())[-1:]
            self.register(place, one, near, edge="next", add=add, close=False)

    @rule(number=NUMBER, given=NODE, near=SOME, edge=EDGES, add=st.booleans(), close=st.booleans())
    def node(self, number: int, given: Node, near: list[int], edge: str | None, add: bool, close: bool) -> None:
        """Register a node behind any others."""
        place = self.pick(number)
        self.register(place, given, [self.name(place, one) for one in near], edge=edge, add=add, close=close)

    @rule(number=NUMBER, given=NODE, others=st.lists(NODE, max_size=2), add=st.booleans(), close=st.booleans())
    def conclude(self, number: int, given: Node, others: list[Node], add: bool, close: bool) -> None:
        """Register a node behind all ends of the active branches, perhaps after branching off once more."""
        place = self.pick(number)
        self.grow(place, others, add=True)
        self.register(place, given, sorted(self.runs[place].get_active_branch()), edge="x", add=add, close=close)

    def register(
        self, place: Place, given: Node, near: list[str], *, edge: str | None, add: bool, close: bool, **options: Any
    ) -> Any:
        """Register a node by a handle, and in the model."""

        def call(run: Run) -> str:
            label = given.label or None
            return run.register_node(
                given.type, given.description, near, edge, label, add, close, **given.fields, **options
            )

        name = self.act(
            place, call, lambda rules: rules.node(given, near, edge=edge, add=add, close=close), catch_up=True
        )
        assert name is None or self.view(place).resolve(name) == (place[1], self.seen[place])
        return name

    @rule(number=NUMBER, ends=st.tuples(NUMBER, NUMBER), edge=EDGES)
    def join(self, number: int, ends: tuple[int, int], edge: str | None) -> None:
        """Join two nodes, forward or backward: what would close a cycle is refused."""
        place = self.pick(number)
        start, end = (self.name(place, one) for one in ends)
        self.act(
            place,
            lambda run: run.add_edge(start, end, edge),
            lambda rules: rules.join(start, end, edge),
            catch_up=True,
        )

    # It changes

    @rule(number=NUMBER, chosen=NUMBER, values=st.dictionaries(st.integers(0, 9), WORD, max_size=2))
    def modify(self, number: int, chosen: int, values: dict[int, str]) -> None:
        """Change attributes, now and then one that a node does not have."""
        place = self.pick(number)
        name, view = self.name(place, chosen), self.view(place)
        node = view.resolve(name)
        known = [*(() if node is None else view.attributes[node]), "label"]
        new = {known[value % len(known)]: word for value, word in values.items()}
        self.act(place, lambda run: run.modify_node(name, new), lambda rules: rules.change(name, new), catch_up=False)

    @rule(number=NUMBER, chosen=NUMBER)
    def remove(self, number: int, chosen: int) -> None:
        """
        Remove a node, of this round or an earlier one; only now and then the query, without which little can be done.
        """
        place = self.pick(number)
        living = list(self.view(place).names.values())
        name = self.name(place, chosen) if chosen % 2 or not living else living[-1 - chosen % min(3, len(living))]
        if name.startswith("Query") and chosen % 4:
            return
        self.act(place, lambda run: run.remove_node(name), lambda rules: rules.removal(name), catch_up=False)

    @rule(number=NUMBER, leave=SOME, join=SOME)
    def move(self, number: int, leave: list[int], join: list[int]) -> None:
        """Move pointers."""
        place = self.pick(number)
        left, joined = ([self.name(place, one) for one in some] for some in (leave, join))
        self.act(
            place,
            lambda run: run.move_pointers(leave=left, join=joined),
            lambda rules: rules.move(left, joined),
            catch_up=False,
        )

    @rule(number=NUMBER, until=st.none() | st.integers(-1, 4), sub=st.sampled_from([None, None, 0, 1]))
    def restore(self, number: int, until: int | None, sub: int | None) -> None:
        """Go back over the earlier rounds as they are now, or over fewer, or over another agent's."""
        place = self.pick(number)
        last = place[1][0] if until is None else until
        pins = [(one, version) for one, version in self.pins(place[1], sub) if one[0] < last]
        found = self.act(
            place,
            lambda run: run.restore_previous_runs(current_run_id=until, sub_id=sub),
            lambda rules: rules.restoration(pins),
            catch_up=True,
        )
        assert found == [one[0] for one, _ in pins]

    # The past, other handles

    @rule(number=NUMBER, version=NUMBER)
    def look_back(self, number: int, version: int) -> None:
        """A version of the past shows what was seen then; by its number, and by its position."""
        place = self.pick(number)
        run, chosen = self.runs[place], version % (self.seen[place] + 1)
        then = self.view(place, chosen)
        check_shown(run.at(chosen), then)
        if chosen:
            (event,) = run.recorded_events(after=chosen - 1, until=chosen)
            check_shown(run.at(f"pos:{event.position}"), then)
        check_diff(run.diff(chosen), then, self.view(place))
        check_diff(run.diff(self.seen[place], chosen), self.view(place), then)

    @rule(number=NUMBER, word=st.sampled_from("xyz"))
    def give_a_name(self, number: int, word: str) -> None:
        """Name the version that a handle shows, and look at it by that name."""
        place = self.pick(number)
        run, version = self.runs[place], self.seen[place]

        def naming(rules: Rules) -> list[Op]:
            is_so = dict(rules.view.said("named")).get(word) == version
            return [] if is_so else [Other("named", (word, version))]

        self.act(place, lambda one: one.name_version(word), naming, catch_up=True)
        check_shown(run.at(word), self.view(place, version))

    @rule(number=NUMBER)
    def refresh(self, number: int) -> None:
        """Catch up with the other handle."""
        place = self.pick(number)
        missing = len(self.streams[place[1]]) - self.seen[place]
        assert len(self.runs[place].refresh()) == missing
        self.seen[place] += missing
        self.check(place)

    @rule(number=NUMBER)
    def look_closely(self, number: int) -> None:
        """Compare everything, read it anew, and check the digests."""
        place = self.pick(number)
        self.check_again(place)
        check_chain(self.runs[place].recorded_events())

    @rule(numbers=st.tuples(NUMBER, NUMBER), given=NODE, what=st.sampled_from(["node", "append", "take", "message"]))
    def repeat(self, numbers: tuple[int, int], given: Node, what: str) -> None:
        """Make a call under a key twice, the second time by any handle of the run: it is done once."""
        place = self.pick(numbers[0])
        key = f"{place[1]}{len(self.streams[place[1]])}"
        near = list(self.view(place).names.values())[-1:]

        def call(run: Run) -> Any:
            match what:
                case "node":
                    label, edge = given.label or None, "next"
                    return run.register_node(
                        given.type, given.description, near, edge, label, idempotency_key=key, **given.fields
                    )
                case "append":
                    return run.append_todo("s", idempotency_key=key)
                case "take":
                    return run.pop_todo(idempotency_key=key)
            return run.record_messages(HumanMessage("m"), idempotency_key=key)

        def happens(rules: Rules) -> list[Op]:
            match what:
                case "node":
                    return rules.node(given, near, edge="next", add=False, close=False)
                case "append":
                    return rules.queue("todo", "s", None)
                case "take":
                    return rules.take("todo")
            return [Other("message", "m")]

        before = len(self.streams[place[1]])
        first = self.act(place, call, happens, catch_up=True)
        if len(self.streams[place[1]]) == before:
            return
        again = (1 - place[0], place[1]) if numbers[1] % 2 else place
        run = self.open_run(again)
        assert call(run) == first
        assert run.version in (self.seen[again], len(self.streams[place[1]]))
        self.seen[again] = run.version
        self.check(again)

    @rule(number=NUMBER, given=st.lists(NODE, min_size=1, max_size=3))
    def enqueue(self, number: int, given: list[Node]) -> None:
        """Queue changes and flush: seen at once, also by who asks for the run again, and in the log after it."""
        key = self.pick(number)[1]
        store = Store(self.log, MemoryProjectionStore(), durability="enqueue")
        place = (2, key)
        self.runs[place] = store.run("mia", self.session, *key)
        self.seen[place] = len(self.streams[key])
        with self.unwritten():
            self.grow(place, given, add=True)
            del self.runs[place]
            self.runs[place] = store.run("mia", self.session, *key)
            self.check(place)
        store.flush()
        self.check(place)
        del self.runs[place], self.seen[place]

    @rule(
        numbers=st.tuples(NUMBER, NUMBER),
        given=st.tuples(NODE, NODE),
        fate=st.sampled_from(["commit", "roll back", "conflict"]),
    )
    def in_a_transaction(self, numbers: tuple[int, int], given: tuple[Node, Node], fate: str) -> None:
        """Change two runs as one, or not at all."""
        places = list({self.pick(number)[1]: self.pick(number) for number in numbers}.values())
        for place in places:
            self.runs[place].refresh()
            self.seen[place] = len(self.streams[place[1]])
        before = {place: (len(self.streams[place[1]]), self.runs[place].graph()) for place in places}

        def change() -> None:
            with transaction(self.log), self.unwritten():
                for place, one in zip(places, given, strict=False):
                    self.grow(place, [one])
                    self.act(place, lambda run: say(run, "t"), lambda _: [Other("message", "t")], catch_up=True)
                if fate == "roll back":
                    raise ZeroDivisionError
                if fate == "conflict":
                    other = Store(self.log, MemoryProjectionStore())
                    # In another thread it is no part of the transaction.
                    assert at_once(lambda: say(other.run("mia", self.session, *places[-1][1]), "between")) == []

        if fate == "commit":
            change()
        else:
            with pytest.raises(ZeroDivisionError if fate == "roll back" else ConcurrencyError):
                change()
            for place, (version, graph) in before.items():
                del self.streams[place[1]][version:]
                self.seen[place] = version
                assert self.runs[place].graph() == graph
            if fate == "conflict":
                self.streams[places[-1][1]].append(Other("message", "between"))
        for place in places:
            self.check(place)

    @precondition(lambda self: self.can_reopen)
    @rule()
    def reopen(self) -> None:
        """Close the log, open it again, and go on with new handles."""
        places = list(self.runs)
        self.log.close()
        self.open_stores()
        for place in places:
            self.open_run(place)
            self.check(place)


def say(run: Run, text: str) -> None:
    """Record a message."""
    run.record_messages(HumanMessage(text))
