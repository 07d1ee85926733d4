"""`refold memory show`: what is remembered, now or at any moment of the past."""

from __future__ import annotations

import click

from ....domain.memory.events import MemoryRemembered
from ....domain.memory.records import MemoryKind
from ...queries.origins import Item
from ..addresses import Reference, address
from ..addresses import reference as parse_reference
from ..changes import items
from ..options import as_json, database, optional_text, reading
from ..seeing import items_seen
from ..showing import print_shown, shown_of


@click.command("show", short_help="Show what there is, now or at a moment of the past.")
@click.argument("reference", metavar="SCOPE[@V]", callback=parse_reference)
@items(required=False, metavar="KEY")
@click.option("--at", "moment", metavar="X", callback=address, help="The moment, if it is not in SCOPE@V.")
@click.option("--prefix", metavar="P", callback=optional_text, help="Keys that begin so only.")
@click.option("--kind", type=click.Choice([kind.value for kind in MemoryKind]), help="Records of this kind only.")
@click.option("--tag", metavar="T", callback=optional_text, help="Records with this tag only.")
@click.option("--evicted", is_flag=True, help="What was forgotten, and why, instead of what is remembered.")
@click.option("--tail", metavar="N", type=click.IntRange(min=1), help="The last N records only.")
@database
@as_json
def show(
    reference: Reference,
    items: tuple[str, ...],
    moment: str | None,
    prefix: str | None,
    kind: str | None,
    tag: str | None,
    evicted: bool,
    tail: int | None,
    location: str,
    as_json: bool,
) -> None:
    """
    Show what is remembered in a scope, the newest last, now or at a moment of the past; with KEY these records only.

    A name of a scope with @, .. or % in it is written with these percent-encoded, as `refold contexts` prints it.

    With --json: what `refold show --json` prints.
    """
    if moment and reference.moments:
        raise click.UsageError("the moment is given twice: in SCOPE@V and with --at", click.get_current_context())

    def is_wanted(item: Item) -> bool:
        return (
            isinstance(item, MemoryRemembered)
            and item.key.startswith(prefix or "")
            and kind in (None, item.kind)
            and (tag is None or tag in item.tags)
        )

    with reading(location) as store:
        view = items_seen(store, reference, moment, "memory")
        is_filtered = any((prefix, kind, tag))
        shown = shown_of(view, evicted=evicted, tail=tail, names=items, is_wanted=is_wanted if is_filtered else None)
        print_shown(shown, ids=False, as_json=as_json)
