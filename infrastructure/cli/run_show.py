"""`refold show` of runs: nodes and edges, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from ...domain.messages import Message, message_to_dict
from ...domain.messages.reading import kind_of
from ...domain.trajectory import QueuedStep, Trajectory, TrajectoryEdge, TrajectoryNode
from ...domain.trajectory.state import QUEUES
from .render import TEXT_WIDTH_MIN, counted, joined, one_line, paint, source_of, terminal_width, wrapped
from .run_words import SeenRun, message_text, value_text
from .shapes import json_text, print_json
from .showing import head_shape, print_head


def run_shape(view: SeenRun) -> dict[str, Any]:
    """Return a round: its own nodes, with the edges that lead to them, its pointers, steps and messages."""
    run, graph = view.run, view.run.graph()
    own = own_nodes(view)
    names = {node.name for node in own}
    return {
        **head_shape(view),
        "round": run.run_id,
        "sub": run.sub_id,
        "closed": run.is_closed,
        "goes_back_over": [{"stream": one.stream, "version": one.version} for one in run.rounds],
        "root": graph.root,
        "initial": graph.initial,
        "pointers": [name for name in graph if name in graph.pointers],
        "nodes": [node_shape(node, graph) for node in own],
        "edges": [edge_shape(edge) for edge in graph.edges if edge.target in names],
        "steps": {queue: [{**step, "version": step.version} for step in run.steps(queue)] for queue in QUEUES},
        "messages": [message_to_dict(message) for message in run.messages()],
    }


def own_nodes(view: SeenRun) -> list[TrajectoryNode]:
    """Return the nodes that the round itself registered."""
    return [node for node in view.run.graph().nodes.values() if node.birth.rpartition("@")[0] == view.stream]


def node_shape(node: TrajectoryNode, graph: Trajectory) -> dict[str, Any]:
    """Return a node of a graph: what it is called, where it was registered, and its attributes."""
    stream, _, version = node.birth.rpartition("@")
    return {
        "name": node.name,
        "type": node.type,
        "label": node.label,
        "stream": stream,
        "version": int(version),
        "round": node.run_id,
        "sub": node.sub_id,
        "created_at": node.created_at,
        "pointer": node.name in graph.pointers,
        "attributes": dict(node.attributes),
    }


def edge_shape(edge: TrajectoryEdge) -> dict[str, Any]:
    """Return an edge by the names of its ends."""
    return {"source": edge.source, "target": edge.target, "type": edge.type}


def place_in(view: SeenRun, node: TrajectoryNode) -> str:
    """Return where a node was registered: `@3`, or with the stream where that was another round."""
    stream, _, version = node.birth.rpartition("@")
    return f"@{version}" if stream == view.stream else node.birth


INDENT = 4
SPEAKER_WIDTH = 11


def print_run(view: SeenRun, *, as_json: bool) -> None:
    """Print a round, for people or as JSON."""
    if as_json:
        print_json(run_shape(view))
        return
    own = own_nodes(view)
    steps = {queue: view.run.steps(queue) for queue in QUEUES}
    messages = view.run.messages()
    print_head(view, _counts(view, len(own), sum(map(len, steps.values())), len(messages)))
    if view.run.rounds:
        click.echo(paint(_wrapped("goes back over " + _rounds(view), 0), "dim"))
    _print_nodes(view, own)
    _print_steps(steps)
    _print_messages(messages)


def _counts(view: SeenRun, nodes: int, steps: int, messages: int) -> str:
    counts = [counted(nodes, "node"), counted(len(view.run.get_active_branch()), "pointer")]
    counts += [counted(steps, "step")] if steps else []
    counts += [counted(messages, "message")] if messages else []
    return joined([*counts, "closed" if view.run.is_closed else ""])


def _print_nodes(view: SeenRun, own: Sequence[TrajectoryNode]) -> None:
    leading: dict[str, list[TrajectoryEdge]] = {node.name: [] for node in own}
    for edge in view.run.graph().edges:
        if edge.target in leading:
            leading[edge.target].append(edge)
    for node in own:
        click.echo("\n" + "\n".join(_node(view, node, leading[node.name])))


def _print_steps(steps: Mapping[str, Sequence[QueuedStep]]) -> None:
    for queue, held in steps.items():
        if held:
            click.echo(f"\n{paint(queue, 'bold')}")
        for step in held:
            params = json_text(step["params"]) if step["params"] else ""
            click.echo(_wrapped(f"{source_of('', step.version)}  {step['name']} {params}", INDENT))


def _rounds(view: SeenRun) -> str:
    return ", ".join(source_of(one.stream, one.version) for one in view.run.rounds)


def _node(view: SeenRun, node: TrajectoryNode, leading: Iterable[TrajectoryEdge]) -> Iterator[str]:
    pointer = paint("  (pointer)", "green") if node.name in view.run.graph().pointers else ""
    yield f"{paint(one_line(place_in(view, node)), 'dim')}  {paint(one_line(node.name), 'cyan')}{pointer}"
    from_where = [f"{edge.type} from {edge.source}" for edge in leading]
    if from_where:
        yield paint(_wrapped(one_line(", ".join(from_where)), INDENT), "dim")
    for name, value in node.attributes.items():
        # What says nothing is left out; JSON has it.
        if value not in (None, "", [], {}):
            yield _wrapped(f"{name}: {value_text(value)}", INDENT)


def _print_messages(messages: Iterable[Message]) -> None:
    for index, message in enumerate(messages):
        if not index:
            click.echo(f"\n{paint('messages', 'bold')}")
        first, *rest = _lines(message_text(message_to_dict(message)), INDENT + SPEAKER_WIDTH)
        speaker = f"{kind_of(message):<{SPEAKER_WIDTH}}"
        click.echo("\n".join([" " * INDENT + speaker + first.lstrip(), *rest]).rstrip())


def _wrapped(text: str, indent: int) -> str:
    return "\n".join(_lines(text, indent))


def _lines(text: str, indent: int) -> list[str]:
    width = max(terminal_width() - indent, TEXT_WIDTH_MIN)
    return [" " * indent + line for line in wrapped(text, width)]
