"""`refold keys`: the master keys of stores, and the data keys that they wrap."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from ...domain.context.description import counted
from ..databases import ring_of
from ..trust.keys import KeyFile
from .args import argument, as_json, database, group, keeping, reading, shown
from .render import json_text


@click.command("new")
@argument("file", metavar="FILE", type=click.Path(path_type=Path), help="The file of keys.")
def new(file: Path) -> None:
    """Add a new master key to a file of keys; the file is made if it does not exist."""
    keys = KeyFile(file)
    name = keys.add_master() if file.exists() else keys.make()
    click.echo(f"{file} has the new master key {name}; `refold keys rotate` puts it into use")


@click.command("rotate")
@click.option("--renew", is_flag=True, help="Give each subject a new data key, too, for its events from now on.")
@database
def rotate(renew: bool, location: str) -> None:
    """
    Wrap the data keys of a store with the newest master key.

    No event is written anew. Afterwards the older master keys can be taken out of the file, unless another store or a
    copy of this one needs them.
    """
    with keeping(location) as store:
        count = store.rotate_keys(renew=renew)
    click.echo(f"{shown(location)}: wrapped {counted(count, 'data key')} with the newest master key")


@click.command("list")
@database
@as_json
def listed(location: str, as_json: bool) -> None:
    """
    Count the data keys of a store by the master key that wraps them.

    With --json: {masters: {name: count}, destroyed}.
    """
    with reading(location) as store:
        found = Counter(row.master for row in ring_of(store.log).rows())
    destroyed = found.pop("", 0)
    if as_json:
        click.echo(json_text({"masters": dict(sorted(found.items())), "destroyed": destroyed}))
        return
    for name, count in sorted(found.items()):
        click.echo(f"{name}  {counted(count, 'data key')}")
    if destroyed:
        click.echo(f"{counted(destroyed, 'data key')} destroyed")


command = group(
    "keys",
    """
    Make and rotate the keys of stores.

    A store is encrypted if it was made with keys: `refold --keys keys.json init`. With `init --no-encrypt` its events
    stay readable, and nobody without the keys can forge one. The file is made with its first store. Keep a copy of it:
    without it nobody can open the store.
    """,
    (new, rotate, listed),
)
