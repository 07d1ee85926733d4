"""The reading half of a run: its graph, nodes, edges, history and steps, as they are or as they were."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ..canonical import parse_json
from ..context.attachment import HomedContext
from ..errors import InvalidInputError
from ..frozen import FrozenDict, freeze
from ..messages import Message, build_current_context, clean_messages, message_from_dict
from ..spans import Ref, Segment
from .drawing import drawn
from .errors import NodeNotFoundError
from .history import AttributeVersion, NodeVersion, attribute_versions, node_versions
from .identity import RunId
from .nodes import DATA, NODE_TYPES, BaseIR, own_fields
from .rules.reshaping import resolved
from .rules.stepping import require_queue
from .state.attributes import DESCRIPTION, attributes_of, old_values
from .state.fold import RunState
from .state.graph import RunGraph
from .trajectory import Trajectory


def shown_node(graph: RunGraph, ref: Ref, identity: RunId) -> BaseIR:
    """Return a vertex as a typed node; `identity` is that of the run that is looked at."""
    values = attributes_of(graph, ref)
    return made_node(graph, ref, identity, values, freeze(old_values(graph, ref)))


def made_node(
    graph: RunGraph, ref: Ref, identity: RunId, values: dict[str, Any], history: FrozenDict[int, Any]
) -> BaseIR:
    """Return a typed node of a vertex that has these attributes."""
    event, node_type = graph.event(ref), graph.type_of(ref)
    required = own_fields(node_type)
    return NODE_TYPES[node_type](
        label=event.label,
        description=values[DESCRIPTION],
        session_id=identity.session_id,
        run_id=_round_of(graph, ref, identity)[0],
        created_at=event.created_at,
        history=history,
        extra=freeze({name: value for name, value in values.items() if name not in (*required, DESCRIPTION)}),
        **{name: freeze(values.get(name)) for name in required},
    )


def _round_of(graph: RunGraph, ref: Ref, identity: RunId) -> tuple[int, int]:
    """Return the round and the sub-agent that registered a vertex."""
    opened = None if not ref.stream else graph.round_of(ref).opened
    return (identity.run_id, identity.sub_id) if opened is None else (opened.round, opened.sub)


class QueuedStep(dict[str, Any]):
    """
    A step, `{"name", "params"}`; without parameters they are `{}`.

    `version` is that which queued it, by which it is given back.
    """

    def __init__(self, name: str, params: Any, version: int) -> None:
        super().__init__(name=name, params={} if params is None else params)
        self.version = version


class ShownRun(HomedContext):
    """A run as it is seen: one round of one agent. Nodes are named `Type(label)`."""

    identity: RunId
    _seen: tuple[RunState, RunGraph] | None
    _shown: tuple[RunState, Trajectory] | None

    @property
    def _state(self) -> RunState:
        state: RunState = self._journal.state
        return state

    @property
    def _graph(self) -> RunGraph:
        state = self._state
        seen = self._seen
        if seen is None or seen[0] is not state:
            seen = (state, RunGraph(state))
            self._seen = seen
        return seen[1]

    # Who it is

    @property
    def user_id(self) -> str:
        """Whose session it is."""
        return self.identity.user_id

    @property
    def session_id(self) -> str:
        """The session, whose rounds belong together."""
        return self.identity.session_id

    @property
    def run_id(self) -> int:
        """The round, from 0."""
        return self.identity.run_id

    @property
    def sub_id(self) -> int:
        """The agent: 0 is the main one."""
        return self.identity.sub_id

    @property
    def agent(self) -> str | None:
        """The name of the agent, which is the default actor of the run's events."""
        return self._journal.place.actor

    @property
    def is_closed(self) -> bool:
        """Whether the run was closed."""
        return self._state.is_closed

    # Nodes

    def node(self, name: str) -> BaseIR:
        """
        Return a node.

        Raises:
            InvalidInputError: the name is not of the form `Type(label)`.
            NodeNotFoundError: there is no such node.
        """
        graph = self._graph
        return shown_node(graph, resolved(name, graph), self.identity)

    get_IR_from_node = node  # the seed's name

    def nodes(self, node_type: str | None = None) -> list[str]:
        """Return the names of all nodes of the graph, or of those of a type, in the order of registration."""
        graph = self._graph
        return [graph.name_of(ref) for ref in graph.vertices() if node_type is None or graph.type_of(ref) == node_type]

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self._graph.find(name) is not None
        except InvalidInputError:
            return False

    def versions(self, name: str) -> list[NodeVersion]:
        """
        Return the versions of a node, from 1: each is an event about it, in all rounds that the run goes back over.

        Raises:
            InvalidInputError, NodeNotFoundError: as for `node`; a node that was removed can be named all the same.
        """
        self.flush()
        graph = self._graph
        return node_versions(graph, self._journal.log, self.stream, self._ever_named(name))

    def history(self, name: str, attribute: str | None = None) -> list[AttributeVersion]:
        """
        Return every change of a node's attributes, or of one: old, new, who, when, and because of what.

        Raises:
            InvalidInputError, NodeNotFoundError: as for `versions`.
            NotFoundError: the node never had that attribute.
        """
        return attribute_versions(self.versions(name), attribute)

    def node_at(self, name: str, version: int) -> BaseIR:
        """
        Return a node as it was at one of its versions, from 1; negative ones count from the last (-1: the last).

        Raises:
            InvalidInputError, NodeNotFoundError: as for `versions`; there is no such version, or it removed the node.
        """
        versions = self.versions(name)
        place = version - 1 if version > 0 else len(versions) + version
        if not 0 <= place < len(versions) or version == 0:
            raise NodeNotFoundError(f"{name} has no version {version}: it has 1 to {len(versions)}")
        wanted = versions[place]
        if wanted.kind == "removed":
            raise NodeNotFoundError(f"{name} was removed by its version {wanted.version}: look at the one before")
        # As in `node`: data that were met again begin anew.
        mine = [one for one in versions[: place + 1] if one.vertex == wanted.vertex]
        history: FrozenDict[int, Any] = freeze(_overwritten(mine))
        return made_node(self._graph, wanted.vertex, self.identity, wanted.attributes, history)

    def _ever_named(self, name: str) -> Ref:
        graph = self._graph
        found = graph.find(name) or next(iter(graph.ever_named(name)), None)
        return resolved(name, graph) if found is None else found

    # The graph

    def graph(self, trimmed: bool = False) -> Trajectory:
        """Return the graph: this round and those it goes back over; `trimmed` to the active branches."""
        state = self._state
        shown = self._shown
        if shown is None or shown[0] is not state:
            shown = (state, drawn(self._graph, self.identity))
            self._shown = shown
        return shown[1].trimmed() if trimmed else shown[1]

    def get_trajectory(self, trimmed: bool = False) -> Any:
        """
        Return the graph as a networkx DiGraph, which is a copy.

        Raises:
            ImportError: networkx is not installed; the extra `refold[graph]` brings it.
        """
        return self.graph(trimmed).to_networkx()

    def get_active_branch(self) -> frozenset[str]:
        """Return the names of the pointers: the ends of the active branches."""
        graph = self._graph
        return frozenset(graph.name_of(ref) for ref in graph.state.pointers if graph.is_there(ref))

    @property
    def rounds(self) -> tuple[Segment, ...]:
        """The earlier rounds that the graph goes back over, oldest first, each as of a version of its stream."""
        return self._state.pins

    @property
    def initial(self) -> str | None:
        """The name of this round's query."""
        state = self._state
        return self._graph.name_of(Ref(state.query)) if state.query else None

    @property
    def session_root(self) -> str | None:
        """The name of the session's first query."""
        graph = self._graph
        return None if graph.root is None else graph.name_of(graph.root)

    def predecessors(self, name: str) -> list[str]:
        """
        Return the names of the nodes that lead to a node.

        Raises:
            InvalidInputError, NodeNotFoundError: as for `node`.
        """
        graph = self._graph
        return self._names(edge.end for edge in graph.predecessors(resolved(name, graph)))

    def successors(self, name: str) -> list[str]:
        """
        Return the names of the nodes that a node leads to.

        Raises:
            InvalidInputError, NodeNotFoundError: as for `node`.
        """
        graph = self._graph
        return self._names(edge.end for edge in graph.successors(resolved(name, graph)))

    def ancestors(self, name: str) -> list[str]:
        """
        Return the names of the nodes from which a way leads to a node, in the order of registration.

        Raises:
            InvalidInputError, NodeNotFoundError: as for `node`.
        """
        graph = self._graph
        return self._names(self._in_order(graph.leading_to([resolved(name, graph)])))

    def descendants(self, name: str) -> list[str]:
        """
        Return the names of the nodes to which a way leads from a node, in the order of registration.

        Raises:
            InvalidInputError, NodeNotFoundError: as for `node`.
        """
        graph = self._graph
        return self._names(self._in_order(graph.led_to([resolved(name, graph)])))

    def lineage(self, name: str) -> list[str]:
        """
        Return the names of all vertices of a data node over the rounds, and of what each came from in its round.

        They come in the order of registration.

        Raises:
            InvalidInputError: it is no data node.
            NodeNotFoundError: as for `node`.
        """
        graph = self._graph
        ref = _require_data(graph, resolved(name, graph))
        named = graph.vertices_named(graph.type_of(ref), graph.event(ref).label)
        vertices = [one for one in named if graph.is_there(one)]
        return self._names(self._in_order(graph.leading_to(vertices, over_bridges=False) | set(vertices)))

    def get_next_data_node(self, name: str) -> list[BaseIR]:
        """
        Return the data that an action led to, and the columns of tables among them.

        Raises:
            InvalidInputError: it is no action.
            NodeNotFoundError: as for `node`.
        """
        graph = self._graph
        ref = resolved(name, graph)
        if graph.type_of(ref) != "Action":
            raise InvalidInputError(f"{name} is no Action: only actions are followed to their data")
        found: dict[Ref, None] = {}
        waiting = deque([ref])
        while waiting:
            for edge in graph.successors(waiting.popleft()):
                if graph.type_of(edge.end) in DATA and edge.end not in found:
                    found[edge.end] = None
                    waiting += [edge.end] if graph.type_of(edge.end) == "Table" else []
        return [shown_node(graph, one, self.identity) for one in found]

    def get_previous_action_node(self, name: str) -> list[BaseIR]:
        """
        Return the actions that led to data, also by way of the table of a column.

        Raises:
            InvalidInputError: it is no data node.
            NodeNotFoundError: as for `node`.
        """
        graph = self._graph
        waiting = deque([_require_data(graph, resolved(name, graph))])
        found: dict[Ref, None] = {}
        seen = set(waiting)
        while waiting:
            for edge in graph.predecessors(waiting.popleft()):
                if graph.type_of(edge.end) == "Action":
                    found[edge.end] = None
                elif graph.type_of(edge.end) == "Table" and edge.end not in seen:
                    seen.add(edge.end)
                    waiting.append(edge.end)
        return [shown_node(graph, one, self.identity) for one in found]

    def _names(self, refs: Iterable[Ref]) -> list[str]:
        return list(dict.fromkeys(map(self._graph.name_of, refs)))

    def _in_order(self, refs: set[Ref]) -> list[Ref]:
        return [ref for ref in self._graph.vertices() if ref in refs]

    # Steps and messages

    def steps(self, list_type: str = "todo") -> list[QueuedStep]:
        """
        Return the steps of a queue, `pre`, `todo` or `post`, in the order in which they will be taken.

        Raises:
            InvalidInputError: no such queue.
        """
        held = self._state.steps.all_in(require_queue(list_type))
        return [QueuedStep(step.name, parse_json(step.params), version) for version, step in held]

    def messages(self, *, clean: bool = False) -> list[Message]:
        """Return the messages that were recorded, all of them, or cleaned so that they can be replayed."""
        held = (message_from_dict(parse_json(event.record)) for event in self._state.messages.values())
        messages = [message for message in held if message is not None]
        return clean_messages(messages) if clean else messages

    def context_text(self) -> str:
        """Return the messages as a compact text."""
        return build_current_context(self.messages())

    def _forget_shown(self) -> None:
        self._seen = self._shown = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.identity))}, version={self.version})"


def _require_data(graph: RunGraph, ref: Ref) -> Ref:
    if graph.type_of(ref) not in DATA:
        raise InvalidInputError(f"{graph.name_of(ref)} is no data node: only data come from actions")
    return ref


def _overwritten(versions: Iterable[NodeVersion]) -> dict[int, dict[str, Any]]:
    """Return what changed attributes had before each change, as a node's `history` has it."""
    found: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for version in versions:
        event = version.recorded.event
        if version.kind == "changed":
            found.append({one.name: before.get(one.name) for one in event.changes})
        elif version.kind == "portrait":
            found.append({DESCRIPTION: before.get(DESCRIPTION)})
        before = version.attributes
    return dict(enumerate(found))
