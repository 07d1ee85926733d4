"""`refold memory add`: a value is remembered."""

from __future__ import annotations

import click

from ....domain.memory.records import MemoryKind, MemoryRecord
from ....domain.spans import Ref
from ..changes import note, report
from ..containers import named_shape
from ..naming import source_of
from ..options import actor, as_json, changing, checked_text, database, required_text
from ..terminal import one_line
from .contents import content, is_json, parsed
from .scopes import scope, scope_to_be


def _tags(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(checked_text, values))


@click.command("add", short_help="Remember a value under a key.")
@click.argument("context", metavar="SCOPE", callback=scope)
@click.argument("key", metavar="KEY", callback=required_text)
@content("VALUE")
@is_json("VALUE")
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in MemoryKind]),
    default=MemoryKind.SEMANTIC.value,
    show_default=True,
    help="What happened, what is known, or how something is done.",
)
@click.option("--tag", "tags", metavar="T", callback=_tags, multiple=True, help="A tag; may be given several times.")
@actor
@database
@as_json
def add(
    context: str,
    key: str,
    content: str,
    is_json: bool,
    kind: str,
    tags: tuple[str, ...],
    actor: str,
    location: str,
    as_json: bool,
) -> None:
    """
    Remember VALUE in SCOPE under KEY, in the place of what is remembered there.

    VALUE is a text, or with --parse JSON; - takes it from stdin. A scope is there as soon as it has a record.

    With --json: {context, kind, version, item: {stream, version, id}, replaced}; id is the key, replaced names the
    record that was there, and is null where there was none.
    """
    value = parsed(content, is_json=is_json)
    with changing(location, actor) as store:
        chosen = scope_to_be(store, context)
        is_new = not chosen.version
        chosen.put(MemoryRecord(scope=chosen.scope, key=key, value=value, kind=MemoryKind(kind), tags=list(tags)))
        (recorded,) = chosen.recorded_events(after=chosen.version - 1, until=chosen.version)
        old = recorded.event.replaced
        shape = {
            "item": named_shape(Ref(recorded.version), chosen.stream, key),
            "replaced": None if old is None else named_shape(old, chosen.stream, key),
        }
        instead = f", in the place of {source_of('', old.version)}" if old else ""
        report(chosen, f"{one_line(key)} remembered{instead}", shape, as_json=as_json)
    if is_new:
        note(f"nothing was remembered in {chosen.scope} before")
