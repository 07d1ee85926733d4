"""`refold init`: the tables of a database, before a program uses it."""

from __future__ import annotations

import click

from ..databases import location_of, open_database
from .args import database, shown


@click.command("init")
@click.option("--reopen", is_flag=True, help="Take events again after `refold copy --move`.")
@database
def command(reopen: bool, location: str) -> None:
    """
    Make the tables of a database, or bring those of an older Refold forward.

    Programs do so themselves when they open a store; here it is done by somebody who may, at a time of their choice.
    """
    log, _ = open_database(location_of(location))
    try:
        if reopen and hasattr(log, "reopen"):
            log.reopen()
    finally:
        log.close()
    click.echo(f"{shown(location)} is ready")
