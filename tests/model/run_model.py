"""What the calls of runs do and refuse: a row of changes for each run, and what is added to it."""

from collections.abc import Iterable, Sequence
from typing import Any

from refold.domain.errors import DecisionRefusedError, InvalidInputError, NotFoundError
from refold.domain.trajectory.nodes import NodeNotFoundError, RunStateError, UnknownAttributeError

from .run_view import DATA, Change, Clear, Id, Join, Key, Move, Node, Op, Other, Removal, Restore, Step, View

REQUIRED: dict[str, tuple[str, ...]] = {
    "Query": ("query", "additional_files"),
    "State": ("state",),
    "Action": ("action", "params", "output", "success"),
    "Knowledge": ("knowledge_type", "knowledge_content"),
    "Tool": ("tool_params", "tool_returns"),
    "Table": ("path",),
    "Column": ("from_table", "values", "supplementary_schemas"),
    "File": ("path", "source"),
    "Script": ("script_content", "script_type", "path", "related_data_list"),
    "Skill": ("path",),
}
STEPS_MAX = 3


class Refused(Exception):
    """A call is refused with an error of a class."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error
        super().__init__(error.__name__)


def usual_edge(sources: Iterable[str], target: str) -> str | None:
    """Return the type of an edge where nobody says it (SPEC D5)."""
    types = "+".join(sorted(set(sources)))
    if target in DATA:
        return "outputs" if types == "Action" else None
    usual = {
        ("Query", "Action"): "triggers",
        ("State", "Action"): "triggers",
        ("Query", "State"): "has_conclusion",
        ("Action", "State"): "has_conclusion",
        ("State", "State"): "has_conclusion",
    }
    return usual.get((types, target))


class Rules:
    """What may be done to a run that shows what `view` says: each call is what it records, or raises Refused."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.is_closed = bool(view.said("closed"))

    def _open(self) -> None:
        if self.is_closed:
            raise Refused(RunStateError)

    def _found(self, name: str) -> Id:
        found = self.view.resolve(name)
        if found is None:
            raise Refused(NodeNotFoundError)
        return found

    def _label(self, node_type: str) -> str:
        kinds = [self.view.kind(node) for node in self.view.registered]
        number = sum(kind[0] == node_type for kind in kinds)
        while (node_type, f"{node_type.lower()}{number:05}") in kinds:
            number += 1
        return f"{node_type.lower()}{number:05}"

    # The graph

    def query(self, text: str) -> list[Op]:
        """Register the query."""
        self._open()
        if self.view.query_of(self.view.key) is not None:
            raise Refused(RunStateError)
        number = sum(self.view.kind(node)[0] == "Query" for node in self.view.registered)
        fields = {"query": text, "additional_files": []}
        return [Node("Query", self._label("Query"), f"User query No.{number:05}", fields, is_pointer=True)]

    def node(self, given: Node, predecessors: Sequence[str], *, edge: str | None, add: bool, close: bool) -> list[Op]:
        """Register a node; of `given` all is said but edges and pointers, and its label may be empty."""
        self._open()
        if self.view.query_of(self.view.key) is None:
            raise Refused(RunStateError)
        if not predecessors:
            raise Refused(InvalidInputError)
        sources = tuple(dict.fromkeys(map(self._found, predecessors)))
        kind = (given.type, given.label)
        known = self.view.newest.get(kind)
        description, fields = given.description, given.fields
        if known is not None and given.type in DATA:
            before = dict(self.view.attributes[known])
            description = description or before["description"]
            fields = {**{name: value for name, value in before.items() if name != "description"}, **fields}
        elif known is not None and any(
            self.view.kind(node) == kind for node in self.view.living if node[0] == self.view.key
        ):
            raise Refused(InvalidInputError)
        edge = edge or usual_edge((self.view.kind(source)[0] for source in sources), given.type)
        if edge is None or not set(REQUIRED[given.type]) <= set(fields):
            raise Refused(InvalidInputError)
        is_data = given.type in DATA
        left = () if is_data or add else tuple(one for one in sources if one in self.view.pointers)
        return [
            given._replace(
                label=given.label or self._label(given.type),
                description=description,
                fields=fields,
                sources=sources,
                edge=edge,
                left=left,
                is_pointer=not is_data and (add or not close),
            )
        ]

    def change(self, name: str, new: dict[str, Any]) -> list[Op]:
        """Change attributes."""
        node = self._found(name)
        before = self.view.attributes[node]
        if not set(new) <= set(before):
            raise Refused(UnknownAttributeError)
        return [Change(node, {one: before[one] for one in new}, new)] if new else []

    def removal(self, name: str) -> list[Op]:
        """Remove a node."""
        node = self._found(name)
        sources = {source for source, target, _ in self.view.links if target == node}
        pointers = self.view.pointers
        joined = [one for one in sources if one not in pointers] if node in pointers else []
        return [Removal(node, tuple(joined))]

    def join(self, source: str, target: str, edge: str | None) -> list[Op]:
        """Join two nodes; what is joined so already is as it should be."""
        self._open()
        start, end = self._found(source), self._found(target)
        if end[0] != self.view.key:
            raise Refused(DecisionRefusedError)
        edge = edge or usual_edge([self.view.kind(start)[0]], self.view.kind(end)[0])
        if edge is None:
            raise Refused(InvalidInputError)
        if (start, end, edge) in self.view.links:
            return []
        if start in self.view.reached([end]):
            raise Refused(DecisionRefusedError)
        return [Join((start, end, edge))]

    def move(self, leave: Sequence[str], join: Sequence[str]) -> list[Op]:
        """Move pointers."""
        self._open()
        joined, left = list(map(self._found, join)), list(map(self._found, leave))
        pointers = self.view.pointers
        op = Move(
            tuple(one for one in left if one in pointers),
            tuple(dict.fromkeys(one for one in joined if one not in pointers)),
        )
        return [op] if any(op) else []

    def restoration(self, pins: Sequence[tuple[Key, int]]) -> list[Op]:
        """Go back over earlier rounds, each at a version."""
        return [] if tuple(pins) == self.view.pins else [Restore(tuple(pins))]

    # Steps, and what there is besides

    def fill(self, queues: dict[str, list[str]]) -> list[Op]:
        """Clear queues and fill them anew."""
        self._open()
        ops: list[Op] = [Clear(tuple(queues))]
        for queue, names in queues.items():
            ops += [Step("queued" if n < STEPS_MAX else "refused", queue, name, {}) for n, name in enumerate(names)]
        return ops

    def queue(self, queue: str, name: str, params: Any) -> list[Op]:
        """Queue a step, or refuse it where there is no room."""
        self._open()
        has_room = len(self.view.queues()[0][queue]) < STEPS_MAX
        return [Step("queued" if has_room else "refused", queue, name, {} if params is None else params)]

    def take(self, queue: str) -> list[Op]:
        """Take the first step."""
        self._open()
        waiting = self.view.queues()[0][queue]
        return [waiting[0]._replace(how="taken")] if waiting else []

    def give_back(self, number: int) -> list[Op]:
        """Give back a step that is taken."""
        self._open()
        step = self.view.queues()[1].get(number)
        if step is None:
            raise Refused(NotFoundError)
        return [step._replace(how="returned")]

    def clear(self, queues: Sequence[str]) -> list[Op]:
        """Clear queues."""
        self._open()
        full = tuple(queue for queue in queues if self.view.queues()[0][queue])
        return [Clear(full)] if full else []

    def close(self) -> list[Op]:
        """Close the run."""
        return [] if self.is_closed else [Other("closed")]
