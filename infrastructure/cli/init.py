"""`refold init` makes the tables of a database before a program uses it; `seal` and `vacuum` make it smaller."""

from __future__ import annotations

from contextlib import closing

import click

from ...domain.context.description import counted
from ..databases import is_on_server, location_of, open_database, stored_log
from ..open import open_store
from ..projecting.builtin import PROJECTIONS
from ..space import space_of
from .args import database, flag, given_database, given_keys, opening_options, shown, usage_error
from .render import note, size_of


@click.command("init")
@flag("--reopen", help="Take events again after `refold copy --move`.")
@flag("--citus", help="Distribute the tables over the servers of a Citus cluster.")
@click.option(
    "--roles",
    metavar="[PREFIX]",
    is_flag=False,
    flag_value="refold",
    help="Make the roles PREFIX_reader, _writer, _projector and _eraser with the rights they need.  [PREFIX: refold]",
)
@flag(
    "--no-encrypt",
    help="With --keys: leave the events of a new store readable, and key its digests, so that nobody can forge them.",
)
@database
def command(reopen: bool, citus: bool, roles: str | None, no_encrypt: bool) -> None:
    """
    Make the tables of a database, or migrate those of an older version of Refold.

    Programs do this themselves when they open a store. Use this command to do it at a time of your choice, or as a user
    with more rights than the programs have.
    """
    found = location_of(given_database())
    on_server = is_on_server(found)
    for option, is_given in (("--citus", citus), ("--roles", roles is not None)):
        if is_given and not on_server:
            raise usage_error(f"{option} needs a database at postgresql://...")
    keys = given_keys()
    if no_encrypt and keys is None:
        raise usage_error("--no-encrypt needs keys: --keys FILE")
    if citus and keys is not None and not no_encrypt:
        raise usage_error("--citus with --keys needs --no-encrypt: an encrypted store cannot be distributed")
    log, rows = open_database(found, keys=keys, encrypt=False if no_encrypt else None)
    with closing(log):
        stored = stored_log(log)
        # A store in memory is never moved.
        if reopen and hasattr(stored, "reopen"):
            stored.reopen()
        if found != ":memory:" and not on_server:
            # A write-protected file is opened for reading only, and keeps older tables as they are.
            from ..log.sqlite.schema import bring_forward

            bring_forward(stored.database)
        if on_server:
            # Imported here: its driver need not be installed for a file.
            from ..projecting.rows.postgres import PostgresProjectionStore

            tables = PostgresProjectionStore(stored)
            if citus:
                tables.distribute()
            # The rows of an encrypted store are in pages; opening the store has made their table.
            tables.prepare(PROJECTIONS if isinstance(rows, PostgresProjectionStore) else ())
            if roles is not None:
                from ..log.postgres.roles import make_roles

                click.echo(f"roles: {', '.join(make_roles(stored.database, roles))}")
    click.echo(f"{shown(given_database())} is ready")


@click.command("seal")
@database
def seal() -> None:
    """
    Pack the old events of a database on PostgreSQL: they take about half of the room then, and are read as before.

    Programs may write and read meanwhile. A file packs its events by itself.
    """
    found = location_of(given_database())
    if not is_on_server(found):
        raise usage_error("a file packs its events by itself: give postgresql://...")
    # Events are checked against their digests before they are packed, which may need the keys.
    with closing(open_database(found, create=False, keys=given_keys())[0]) as log:
        packed = sum(stored_log(log).sealing())
    click.echo(f"{shown(given_database())}: packed {counted(packed, 'event')}")


@click.command("vacuum")
@database
def vacuum() -> None:
    """
    Give back the room of deleted rows, beside programs that read and write: `refold stats` says how much it is.

    A file gets shorter, unless an earlier Refold made it; `refold copy` makes one that does. PostgreSQL keeps most of
    the room for new rows.
    """
    with open_store(location_of(given_database()), create=False, **opening_options()) as store:
        given = store.vacuum()
        left = space_of(store.log)
    click.echo(f"{shown(given_database())}: {size_of(given)} given back, {size_of(left.size)} in use")
    if not left.gives_back and left.free:
        note("an earlier Refold made this file: it keeps what is free; copy it into a new one to give it back")
