"""`refold memory remove` and `refold memory restore`: records are forgotten, and come back."""

from __future__ import annotations

from collections.abc import Callable

import click

from ....domain.errors import NotFoundError
from ....domain.memory import MemoryScope
from ....domain.memory.events import MemoryForgotten, MemoryRestored
from ....domain.spans import refs_of
from ...queries.origins import births, full_ref
from ...store import Store
from ..changes import items, note, report
from ..containers import named_shape
from ..naming import counted
from ..options import actor, as_json, changing, database, reason
from .scopes import scope, scope_named

everything = click.option("--all", "is_all", is_flag=True, help="Every record, instead of KEY.")


@click.command("remove", short_help="Forget what is under a key.")
@click.argument("context", metavar="SCOPE", callback=scope)
@items(required=False, metavar="KEY")
@everything
@reason
@actor
@database
@as_json
def remove(
    context: str,
    items: tuple[str, ...],
    is_all: bool,
    reason: str | None,
    actor: str,
    location: str,
    as_json: bool,
) -> None:
    """
    Forget what is remembered in SCOPE under KEY, or everything; `refold memory restore` takes it back.

    It stays in the past: `refold memory show SCOPE@V`.

    With --json: {context, kind, version, items: [{stream, version, id}]}; id is the key.
    """

    def forget(shown: MemoryScope, key: str | None) -> None:
        if not shown.forget(key, reason=reason) and key is not None:
            way_out = f"`refold memory show {shown.id}` lists what there is"
            raise NotFoundError(f"nothing is remembered in {shown.stream} under {key!r}: {way_out}")

    _require_choice(items, is_all)
    with changing(location, actor) as store:
        _changed(store, context, items, forget, kind=MemoryForgotten, done="forgotten", as_json=as_json)


@click.command("restore", short_help="Take back what was forgotten.")
@click.argument("context", metavar="SCOPE", callback=scope)
@items(required=False, metavar="KEY")
@everything
@actor
@database
@as_json
def restore(context: str, items: tuple[str, ...], is_all: bool, actor: str, location: str, as_json: bool) -> None:
    """
    Take back what was forgotten last in SCOPE under KEY, or under every key that is not remembered anew.

    With --json: {context, kind, version, items: [{stream, version, id}]}; id is the key.
    """
    _require_choice(items, is_all)
    with changing(location, actor) as store:
        _changed(store, context, items, MemoryScope.restore, kind=MemoryRestored, done="restored", as_json=as_json)


def _require_choice(keys: tuple[str, ...], is_all: bool) -> None:
    if bool(keys) == is_all:
        raise click.UsageError("give either KEY or --all", click.get_current_context())


def _changed(
    store: Store,
    name: str,
    keys: tuple[str, ...],
    change: Callable[[MemoryScope, str | None], object],
    *,
    kind: type[MemoryForgotten | MemoryRestored],
    done: str,
    as_json: bool,
) -> None:
    shown = scope_named(store, name)
    before = shown.version
    with store.transaction():
        for key in dict.fromkeys(keys) or (None,):
            change(shown, key)
    refs = [
        full_ref(ref, shown.stream)
        for recorded in shown.recorded_events(after=before, until=shown.version)
        if isinstance(recorded.event, kind)
        for ref in refs_of(recorded.event.items)
    ]
    born = births(store.log, refs)
    named = [named_shape(ref, shown.stream, born[ref].event.key) for ref in refs]
    report(shown, f"{counted(len(refs), 'record')} {done}", {"items": named}, as_json=as_json)
    if not refs:
        note(f"there is nothing to be {done}: nothing was changed")
