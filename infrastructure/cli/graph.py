"""`refold graph`: what an agent asked, did, concluded and found, as a graph."""

from __future__ import annotations

import click

from .addresses import address
from .changes import note
from .options import as_json, database, optional_text, reading, required_text
from .runs.drawing import print_graph
from .runs.sessions import Wanted, run_at, wanted_runs
from .shapes import print_json

NUMBER = click.IntRange(min=0)


@click.command("graph")
@click.argument("session", metavar="SESSION", callback=required_text)
@click.option("--user", metavar="U", callback=optional_text, help="Whose session it is, where several have one.")
@click.option("--round", "number", metavar="N", type=NUMBER, help="The round, from 0  [default: the newest].")
@click.option("--sub", metavar="N", type=NUMBER, help="The agent; 0 is the main one, and the default.")
@click.option("--at", "moment", metavar="X", callback=address, help="As it was at this moment.")
@click.option(
    "--as",
    "form",
    type=click.Choice(["text", "dot", "mermaid", "json"]),
    default="text",
    show_default=True,
    help="How it is printed.",
)
@click.option("--active", is_flag=True, help="The active branches only.")
@click.option("--identities", is_flag=True, help="Each data node once, however often it was met.")
@database
@as_json
def command(
    session: str,
    user: str | None,
    number: int | None,
    sub: int | None,
    moment: str | None,
    form: str,
    active: bool,
    identities: bool,
    location: str,
    as_json: bool,
) -> None:
    """
    Draw the graph of a session: its newest round, and the earlier ones that it goes back over.

    SESSION is a session's id, or RUN[@V], the id of a run as `refold contexts` lists it. A line for each node: * marks
    pointers, the ends of the active branches; AT is the version that registered the node. With --identities an edge
    may lead back to what was there before.

    With --as json, or --json: node-link JSON, as networkx reads it: {directed, multigraph, graph: {root, initial,
    pointers}, nodes: [{id, node_type, run_id, description, ...}], edges: [{source, target, edge_type, relationship}]}.
    """
    streams, moment = wanted_runs(location, Wanted(session, user, number, sub, moment))
    with reading(location) as store:
        view = run_at(store, streams, moment)
        graph = view.run.graph(trimmed=active)
        graph = graph.by_identity() if identities else graph
        if as_json or form == "json":
            print_json(graph.to_node_link())
        elif form == "text":
            print_graph(view, graph)
        else:
            click.echo(graph.to_dot() if form == "dot" else graph.to_mermaid(), nl=False)
        if view.version and view.run.run_id and not view.run.sub_id and not view.run.rounds:
            note(f"{view.stream} goes back over no earlier round: it is shown alone")
