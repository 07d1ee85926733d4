"""`refold graph`: the questions, actions, conclusions and data of an agent, as a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from ...domain.context.description import counted, joined
from ...domain.spans import Ref
from ...domain.trajectory.trajectory import Trajectory
from ..views.contexts import RunView
from .args import address, answer_options, argument, flag, note_form, number, reading, required_text, text
from .lines import print_head
from .render import (
    aligned,
    display_width,
    fitted,
    is_too_wide,
    note,
    one_line,
    paged,
    paint,
    print_json,
    prints_json,
    terminal_width,
    wrapped,
)
from .runs import RunAddress, run_at, wanted_runs

HEADINGS = ("", "ROUND", "AT", "NODE", "LEADS TO")
POINTER = "*"
BELOW = " " * 6
# With less room beside the nodes, the ends of their edges stand below them.
ENDS_WIDTH_MIN = 32


def print_graph(view: RunView, graph: Trajectory) -> None:
    """Print a graph of a run: pointers with a star, edges that lead back with `(back)`."""
    counts = [counted(len(graph), "node"), counted(len(graph.edges), "edge"), counted(len(graph.pointers), "pointer")]
    print_head(view, joined(counts))
    if not len(graph):
        return
    rows = [HEADINGS, *_rows(graph)]
    if len({(node.run_id, node.sub_id) for node in graph.nodes.values()}) == 1:
        rows = [(row[0], *row[2:]) for row in rows]
    right = range(1, len(rows[0]) - 2)
    lines = aligned(rows, right=right)
    room = terminal_width() - max(map(display_width, aligned([row[:-1] for row in rows], right=right))) - 2
    if room < ENDS_WIDTH_MIN and is_too_wide(lines):
        # The ends of a node's edges stand below it, an edge type a line.
        lines = [
            line
            for row, ends in zip(aligned([row[:-1] for row in rows], right=right), ((), *_ends(graph)), strict=True)
            for line in (row, *_below(ends))
        ]
    heading, *rest = map(fitted, lines)
    click.echo("\n" + paint(heading, "dim"))
    for line in rest:
        click.echo(line)


def _below(ends: Sequence[str]) -> Iterator[str]:
    for end in ends:
        first, *more = wrapped(f"-> {end}", terminal_width() - len(BELOW))
        yield BELOW + first
        yield from (f"{BELOW}   {line}" for line in more)


def _rows(graph: Trajectory) -> Iterator[tuple[str, ...]]:
    for (name, node), ends in zip(graph.nodes.items(), _ends(graph), strict=True):
        yield (
            POINTER if name in graph.pointers else "",
            f"{node.run_id}.{node.sub_id}" if node.sub_id else str(node.run_id),
            f"@{Ref.parse(node.birth).version}",
            one_line(name),
            "; ".join(ends),
        )


def _ends(graph: Trajectory) -> Iterator[list[str]]:
    """Yield the targets of each node's edges, grouped by type: an action may have led to a hundred tables."""
    leading: dict[str, dict[str, list[str]]] = {name: {} for name in graph}
    for edge in graph.edges:
        leading[edge.source].setdefault(edge.type, []).append(edge.target + (" (back)" if edge.leads_back else ""))
    for by_type in leading.values():
        yield [one_line(f"{edge_type} {', '.join(ends)}") for edge_type, ends in by_type.items()]


@click.command("graph")
@argument(
    "session",
    help="A session's id; or a run as `refold contexts` lists it, with a moment (RUN@V) or without.",
    metavar="SESSION",
    callback=required_text,
)
@text("--user", metavar="U", help="The user of the session, if several users have one of that name.")
@number("--round", least=0, help="The round, from 0.  [default: the newest]")
@number("--sub", least=0, help="The agent; 0 is the main one.  [default: 0]")
@click.option(
    "--at",
    "moment",
    metavar="X",
    callback=address,
    help="The graph at this moment; at a time or a position, the newest round that existed then.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(["text", "dot", "mermaid", "json"]),
    callback=note_form,
    default="text",
    show_default=True,
    help="The form of the output.",
)
@flag(
    "--active",
    help="Only the active branches: the nodes that lead to a pointer, and the data that were found on the way.",
)
@flag("--identities", help="Each data node once, however often it was met.")
@answer_options
@paged
def command(
    session: str,
    user: str | None,
    round: int | None,
    sub: int | None,
    moment: str | None,
    form: str,
    active: bool,
    identities: bool,
) -> None:
    """
    Draw the graph of a session: its newest round, and the earlier ones that it goes back over.

    SESSION is a session's id, or RUN[@V], the id of a run as `refold contexts` lists it. A line for each node: * marks
    pointers, the ends of the active branches; AT is the version that registered the node. With --identities an edge
    may lead back to an earlier node.

    With --as json, or --json: node-link JSON, as networkx reads it: {directed, multigraph, graph: {root, initial,
    pointers}, nodes: [{id, node_type, run_id, description, ...}], edges: [{source, target, edge_type, relationship}]}.
    """
    streams, moment = wanted_runs(RunAddress(session, user, round, sub, moment))
    with reading() as store:
        view = run_at(store, streams, moment)
        graph = view.run.graph(trimmed=active)
        graph = graph.by_identity() if identities else graph
        if prints_json():
            print_json(graph.to_node_link())
        elif form == "text":
            print_graph(view, graph)
        else:
            click.echo(graph.to_dot() if form == "dot" else graph.to_mermaid(), nl=False)
        if view.version and view.run.run_id and not view.run.sub_id and not view.run.rounds:
            note(f"{view.stream} goes back over no earlier round: it is shown alone")
