"""A run at one version, gone over from the beginning for every look, with plain lists, dicts and sets."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

# One round of one agent, and a node: the version of the run that registered it.
Key = tuple[int, int]
Id = tuple[Key, int]
Link = tuple[Id, Id, str]
DATA = {"Knowledge", "Tool", "Table", "Column", "File", "Script", "Skill"}
BRIDGE = "continues_to"


class Node(NamedTuple):
    """A node was registered; the query too."""

    type: str
    label: str
    description: str
    fields: dict[str, Any]
    sources: tuple[Id, ...] = ()
    edge: str = ""
    left: tuple[Id, ...] = ()
    is_pointer: bool = False


class Change(NamedTuple):
    """A node got other attributes; `old` is what they were."""

    node: Id
    old: dict[str, Any]
    new: dict[str, Any]


class Removal(NamedTuple):
    """A node is gone, and others are pointers in its place."""

    node: Id
    joined: tuple[Id, ...]


class Join(NamedTuple):
    """Two nodes were joined."""

    link: Link


class Move(NamedTuple):
    """Pointers were moved."""

    left: tuple[Id, ...]
    joined: tuple[Id, ...]


class Restore(NamedTuple):
    """The run goes back over these rounds, each at a version."""

    pins: tuple[tuple[Key, int], ...]


class Step(NamedTuple):
    """A step was queued, refused, taken or returned; `number` is the version that queued it."""

    how: str
    queue: str
    name: str = ""
    params: Any = None
    number: int = 0


class Clear(NamedTuple):
    """Queues were cleared."""

    queues: tuple[str, ...]


class Other(NamedTuple):
    """Anything else: the run was opened, closed, a version named, a message recorded."""

    what: str
    value: Any = None


Op = Node | Change | Removal | Join | Move | Restore | Step | Clear | Other
Streams = Mapping[Key, Sequence[Op]]


class View:
    """What a run shows at one version."""

    def __init__(self, streams: Streams, key: Key, version: int) -> None:
        self.key, self.version = key, version
        self.own = list(streams[key][:version])
        self.pins = next((op.pins for op in reversed(self.own) if isinstance(op, Restore)), ())
        pinned: list[tuple[Key, Sequence[Op]]] = [(one, streams[one][:until]) for one, until in self.pins]
        self.rounds = [*pinned, (key, self.own)]
        self.all = [(one, number, op) for one, ops in self.rounds for number, op in enumerate(ops, 1)]
        self.registered = {(one, number): op for one, number, op in self.all if isinstance(op, Node)}
        self.gone = {op.node for _, _, op in self.all if isinstance(op, Removal)}
        self.living = [node for node in self.registered if node not in self.gone]
        self.numbers = self._numbered()
        self.newest = {self.kind(node): node for node in self.living}
        self.names = {node: self._name(node) for node in self.living}
        self.attributes = self._attributes()
        self.links = self._links()

    # Nodes

    def kind(self, node: Id) -> tuple[str, str]:
        """Return type and label of a node."""
        return self.registered[node].type, self.registered[node].label

    def _numbered(self) -> dict[Id, int]:
        counts: Counter[tuple[str, str]] = Counter()
        numbers: dict[Id, int] = {}
        for node in self.registered:
            counts[self.kind(node)] += 1
            numbers[node] = counts[self.kind(node)]
        return numbers

    def _name(self, node: Id) -> str:
        plain = "{}({})".format(*self.kind(node))
        return plain if self.newest[self.kind(node)] == node else f"{plain}#{self.numbers[node]}"

    def resolve(self, name: str) -> Id | None:
        """Return the node that a name means: a plain one, or one with a number."""
        numbered = {"{}({})#{}".format(*self.kind(node), self.numbers[node]): node for node in self.living}
        plain = {"{}({})".format(*kind): node for kind, node in self.newest.items()}
        return {**numbered, **plain}.get(name)

    def _attributes(self) -> dict[Id, dict[str, Any]]:
        said = {node: {"description": op.description, **op.fields} for node, op in self.registered.items()}
        for change in self.changes():
            if change.node in said:
                said[change.node].update(change.new)
        return said

    def changes(self) -> list[Change]:
        """Return all changes of nodes, round after round."""
        return [op for _, _, op in self.all if isinstance(op, Change)]

    def told_of(self, node: Id) -> list[str]:
        """Return what happened to a node, kind by kind; to data, over all that bear their name."""
        same = [node]
        if self.kind(node)[0] in DATA:
            same = [one for one in self.registered if self.kind(one) == self.kind(node)]
        told: list[str] = []
        for one in same:
            told.append("met_again" if told else "registered")
            told += ["changed" for change in self.changes() if change.node == one]
            told += ["removed"] * (one in self.gone)
        return told

    # Edges

    def _links(self) -> set[Link]:
        recorded = {(source, node, op.edge) for node, op in self.registered.items() for source in op.sources}
        recorded |= {op.link for _, _, op in self.all if isinstance(op, Join)}
        there = {link for link in recorded if link[0] in self.names and link[1] in self.names}
        return there | self._bridges(there)

    def _bridges(self, there: set[Link]) -> set[Link]:
        bridges: set[Link] = set()
        waiting: list[Id] = []
        for key, _ in self.rounds:
            mine = [node for node in self.living if node[0] == key]
            query = self.query_of(key)
            if query is not None:
                bridges |= {(leaf, query, BRIDGE) for leaf in waiting}
                waiting = []
            leading = {source for source, target, _ in there if target[0] == key}
            waiting += [node for node in mine if node not in leading]
        return bridges

    def query_of(self, key: Key) -> Id | None:
        """Return the query of a round."""
        return next((node for node in self.living if node[0] == key and self.kind(node)[0] == "Query"), None)

    @property
    def root(self) -> Id | None:
        """The first query of all rounds."""
        return next((node for key, _ in self.rounds if (node := self.query_of(key)) is not None), None)

    def reached(self, starts: Iterable[Id], *, backward: bool = False, without: Iterable[Id] = ()) -> set[Id]:
        """Return all nodes to which a way leads, or from which one does."""
        left_out, found, new = set(without), set[Id](), set(starts)
        while new:
            found |= new
            steps = {link[:2] if not backward else (link[1], link[0]) for link in self.links}
            new = {end for start, end in steps if start in found and end not in found | left_out}
        return found

    # Pointers, steps, the rest

    @property
    def pointers(self) -> list[Id]:
        """All pointers, those to nodes that are not shown too."""
        held: dict[Id, None] = {}
        for number, op in enumerate(self.own, 1):
            left: Iterable[Id] = ()
            joined: Iterable[Id] = ()
            if isinstance(op, Node):
                left, joined = op.left, [(self.key, number)] if op.is_pointer else []
            elif isinstance(op, Removal):
                left, joined = [op.node], op.joined
            elif isinstance(op, Move):
                left, joined = op.left, op.joined
            held = {one: None for one in held if one not in set(left)} | dict.fromkeys(joined)
        return list(held)

    def trimmed(self) -> set[Id]:
        """Return what is left of the graph when only the active branches stay."""
        pointers = [node for node in self.pointers if node in self.names]
        if not pointers or self.root is None:
            return set(self.names)
        active = self.reached(pointers, backward=True)
        dead = [node for node in self.living if self.kind(node)[0] == "Action" and node not in active]
        return self.reached([self.root], without=dead)

    def queues(self) -> tuple[dict[str, list[Step]], dict[int, Step]]:
        """Return the steps that wait in each queue, in their order, and those that are taken."""
        held: dict[str, list[Step]] = {"pre": [], "todo": [], "post": []}
        taken: dict[int, Step] = {}
        for number, op in enumerate(self.own, 1):
            if isinstance(op, Clear):
                held |= {queue: [] for queue in op.queues}
            elif isinstance(op, Step) and op.how == "queued":
                held[op.queue].append(op._replace(number=number))
            elif isinstance(op, Step) and op.how == "taken":
                step = held[op.queue].pop(0)
                taken[step.number] = step
            elif isinstance(op, Step) and op.how == "returned":
                held[op.queue].insert(0, taken.pop(op.number))
        return held, taken

    def said(self, what: str) -> list[Any]:
        """Return what was recorded under a word, such as messages."""
        return [op.value for op in self.own if isinstance(op, Other) and op.what == what]
