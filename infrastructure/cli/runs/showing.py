"""A run for people: what the round asked, did and found, its steps, and what was said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import click

from ....domain.messages import Message, message_to_dict
from ....domain.messages.reading import kind_of
from ....domain.trajectory import QueuedStep, TrajectoryEdge, TrajectoryNode
from ....domain.trajectory.state.steps import QUEUES
from ..naming import counted, joined, source_of
from ..seen_run import SeenRun
from ..shapes import json_text, print_json
from ..showing import print_head
from ..terminal import TEXT_WIDTH_MIN, one_line, paint, terminal_width, wrapped
from .shapes import own_nodes, place_in, run_shape
from .wording import message_text, value_text

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
