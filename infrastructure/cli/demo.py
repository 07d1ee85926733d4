"""`refold demo`: an empty store is filled with made-up histories, to look at."""

from __future__ import annotations

from shlex import quote

import click

from ...domain.clock import REAL_SYSTEM
from ...domain.context.description import counted
from ..demo import SIZES, fill_store
from .args import database, given_database, given_keys, shown
from .progress import progress_bar
from .render import one_line


@click.command("demo")
@click.option(
    "--size",
    type=click.Choice(list(SIZES)),
    default="small",
    show_default=True,
    help="How much to make: small is 43 contexts of 9 days; large has also 1,100 tickets, a check that runs for weeks, "
    "and a run of 10,000 nodes, 30,000 events in all.",
)
@database
def command(size: str) -> None:
    """
    Fill an empty store with made-up histories of agents, so that there is something to look at.

    A support desk, a team of researchers, a coding agent, an analyst and a reader of leases: with forks, merges,
    approvals, failures, summaries, graphs and costs. The histories end now; apart from their times they are the same
    each time. `large` has some thirty thousand events, and a graph of 10,000 nodes.
    """
    with progress_bar("making histories") as progress:
        made = fill_store(given_database(), size=size, until=REAL_SYSTEM.now(), progress=progress, keys=given_keys())
    contexts, events = counted(made.contexts, "context"), counted(made.events, "event")
    click.echo(f"{shown(given_database())} holds {contexts} with {events} of {made.days} days, all of them made up")
    keys = click.get_current_context().find_root().params["keys"]
    with_keys = "" if keys is None else f"--keys {quote(one_line(keys))} "
    click.echo(f"look at them on a page: refold {with_keys}ui --db {quote(shown(given_database()))}", err=True)
