"""Random lives of a session: rounds of the main agent, in each of which something happens to any node that it sees."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import refold
from refold.domain.errors import RefusedError
from refold.domain.trajectory.commands import WritePortrait
from refold.domain.trajectory.nodes import COMPUTATION, NODE_TYPES, own_fields
from refold.domain.trajectory.run import Run

USER = "mia/%"
LABELS = ("orders", "a(b)", "ü\n", "50%/x")
VALUES: tuple[Any, ...] = ("text", "", None, 0, 1.5, True, [1, {"k": "v"}], {"a": [], "b": "\u00e9\0"}, 10**30)


class Life:
    """
    What happens in a session, the same for the same seed.

    Without `goes_back` only the newest round is worked on, and only its own nodes are led on from.
    """

    def __init__(self, store: refold.Store, seed: int, *, goes_back: bool) -> None:
        self.session = f"s{seed}"
        self._store, self._goes_back = store, goes_back
        self._random = random.Random(seed)
        self.rounds: list[Run] = []
        self.begin_round()

    @property
    def last(self) -> Run:
        """The newest round."""
        return self.rounds[-1]

    def begin_round(self) -> None:
        """Open the next round, which goes back over all before it; now and then a number is left out."""
        number = self.last.run_id + self._random.choice((1, 1, 2)) if self.rounds else 0
        self.rounds.append(self._store.run(USER, self.session, number))
        self.last.register_query("What now?", [])

    def go_on(self, steps: int) -> None:
        """Do as many random things; what is refused changes nothing."""
        for _ in range(steps):
            run = self._random.choice(self.rounds) if self._goes_back else self.last
            actor = self._random.choice((None, "mia", "clerk"))
            cause = self._random.choice((None, "chat:a@1"))
            with refold.acting(actor=actor, correlation_id=actor, because=cause), suppress(RefusedError):
                self._random.choice(self._deeds())(run)

    def _deeds(self) -> list[Callable[[Run], object]]:
        often = [self._register, self._register, self._register, self._modify, self._modify]
        return [*often, self._join, self._remove, self._move, self._describe, self._talk]

    def _register(self, run: Run) -> None:
        node_type = self._random.choice([name for name in NODE_TYPES if name != "Query"])
        label = self._random.choice((None, *LABELS))
        if node_type in COMPUTATION and self._random.random() < 0.7:
            label = None
        fields = {name: self._random.choice(VALUES) for name in own_fields(node_type)}
        if self._random.random() < 0.3:
            fields["beside"] = self._random.choice(VALUES)
        run.register_node(
            node_type,
            self._random.choice(("", "seen")),
            self._some(run, own=not self._goes_back),
            "leads",
            label,
            add_pt=self._random.random() < 0.2,
            **fields,
        )

    def _modify(self, run: Run) -> None:
        (name,) = self._some(run, 1)
        attributes = list(run.graph().nodes[name].attributes)
        wanted = self._random.sample(attributes, self._random.randint(1, min(3, len(attributes))))
        run.modify_node(name, {one: "told" if one == "description" else self._random.choice(VALUES) for one in wanted})

    def _join(self, run: Run) -> None:
        ends = self._some(run, 2, own=not self._goes_back)
        run.add_edge(ends[0], ends[-1], "joins")

    def _remove(self, run: Run) -> None:
        (name,) = self._some(run, 1)
        if self._random.random() < 0.5 and not name.startswith("Query("):
            run.remove_node(name)

    def _move(self, run: Run) -> None:
        run.move_pointers(join=self._some(run, 1), leave=self._some(run, 1))

    def _describe(self, run: Run) -> None:
        (name,) = self._some(run, 1)
        run._record(WritePortrait(run._graph.resolve(name), "a portrait"), None, None, catch_up=True)

    def _talk(self, run: Run) -> None:
        run.record_messages({"type": "human", "content": "hello"})

    def _some(self, run: Run, count: int = 0, *, own: bool = False) -> list[str]:
        nodes = run.graph().nodes.values()
        names = [node.name for node in nodes if not own or node.run_id == run.run_id]
        return self._random.sample(names, min(len(names), count or self._random.randint(1, 3)))
