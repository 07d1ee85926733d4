"""`refold keys`: the master keys of stores; `refold witness` and `refold prove`: the witness of a store, and proofs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from ...domain.context.description import counted
from ...domain.errors import InvalidInputError
from ..databases import ring_of
from ..store import Store
from ..trust.keys import KeyFile
from . import args
from .render import FAILED, note, one_line, print_json, prints_json


@click.command("new")
@args.argument("file", metavar="FILE", type=click.Path(path_type=Path), help="The file of keys.")
def new(file: Path) -> None:
    """Add a new master key to a file of keys, which is made if needed."""
    kept = KeyFile(file)
    name = kept.add_master() if file.exists() else kept.make()
    click.echo(f"{file} has the new master key {name}; `refold keys rotate` puts it into use")


@click.command("rotate")
@args.flag("--renew", help="Give each subject a new data key, too, for its events from now on.")
@args.database
def rotate(renew: bool) -> None:
    """
    Wrap the data keys of a store with the newest master key.

    No event is written anew. Afterwards the older master keys can be taken out of the file, unless another store or a
    copy of this one needs them.
    """
    with args.keeping() as store:
        count = store.rotate_keys(renew=renew)
    click.echo(f"{args.shown(args.given_database())}: wrapped {counted(count, 'data key')} with the newest master key")


@click.command("list")
@args.answer_options
def listed() -> None:
    """
    Count the data keys of a store by the master key that wraps them.

    With --json: {masters: {name: count}, destroyed}.
    """
    with args.reading() as store:
        found = Counter(row.master for row in ring_of(store.log).rows())
    destroyed = found.pop("", 0)
    if prints_json():
        print_json({"masters": dict(sorted(found.items())), "destroyed": destroyed})
        return
    for name, count in sorted(found.items()):
        click.echo(f"{name}  {counted(count, 'data key')}")
    if destroyed:
        click.echo(f"{counted(destroyed, 'data key')} destroyed")


keys = args.group(
    "keys",
    """
    Make and rotate the keys of stores.

    A store is encrypted if it was made with keys: `refold --keys keys.json init`. With `init --no-encrypt` its events
    stay readable, and nobody without the keys can forge one. The file is made with its first store. Keep a copy of it:
    without it nobody can open the store.
    """,
    (new, rotate, listed),
)


@click.command("show")
@args.answer_options
def show() -> int:
    """
    Show how many events the witness saw, their root, and when.

    The exit code is 1 where the witness cannot be reached.

    With --json: {witness, lineage, events, root, time, writers, failure}: `writers` are processes that have not closed
    the store, `failure` says why the witness cannot be reached.
    """
    with args.reading() as store:
        found = _state(store)
    if prints_json():
        print_json(found)
    else:
        for name in ("witness", "lineage", "events", "root", "time", "writers", "failure"):
            value = found[name]
            if value != "":
                click.echo(f"{name:<10}{one_line(f'{value:,}' if isinstance(value, int) else value)}")
    return FAILED if found["failure"] else 0


@click.command("check")
@args.answer_options
def check() -> int:
    """
    Compare all events with all checkpoints that the witness has. A line for each difference; then the exit code is 1.

    With --json: {database, events, problems: [{where, reason}]}.
    """
    with args.reading() as store:
        state, faults = _state(store), store.compare_with_witness()
    if prints_json():
        problems = [{"where": where, "reason": reason} for where, reason in faults]
        print_json({"database": args.shown(args.given_database()), "events": state["events"], "problems": problems})
    else:
        for where, reason in faults:
            click.echo(one_line(f"{where}: {reason}"))
        if not faults:
            click.echo(f"{counted(state['events'], 'event')} are those that {one_line(state['witness'])} saw")
    return FAILED if faults else 0


@click.command("accept")
@args.text("--reason", metavar="TEXT", required=True, help="Why; the witness keeps it.")
@args.actor
@args.database
def accept(reason: str) -> None:
    """
    Have the witness begin anew with the store as it is.

    This is for a store that was restored, or to which a program wrote without the witness. The earlier entries stay,
    and count no more.
    """
    from ..open import accept_store

    events = accept_store(args.given_database(), actor=args.given_actor(), reason=reason, **args.opening_options())
    note(f"the witness begins anew with {counted(events, 'event')}")


witness = args.group("witness", "Show the witness of the store, and compare the store with it.", (show, check, accept))


@click.command("prove")
@args.argument(
    "event", help="The event, as `stream@version`.", metavar="[EVENT]", required=False, callback=args.optional_text
)
@args.number("--since", help="Prove that the last checkpoint continues the one of N events.")
@args.database
def prove(event: str | None, since: int | None) -> None:
    """
    Print a proof, as JSON: that EVENT is among those that the witness saw; or, with --since, that its last checkpoint
    continues the one of N events. `docs/how-to/prove.md` has the lines that check it without Refold.
    """
    if (event is None) == (since is None):
        raise args.usage_error("give an EVENT, or --since N")
    with args.reading() as store:
        # A store without a witness is refused with how to name one.
        _state(store)
        print_json(store.prove_consistency(since) if since else store.prove(event or ""))


def _state(store: Store) -> dict[str, Any]:
    found = store.witnessed()
    if found is None:
        raise InvalidInputError("no witness was named: --witness or REFOLD_WITNESS does")
    return found._asdict()
