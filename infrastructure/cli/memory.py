"""`refold memory`: show, add, remove, restore and search records of a memory."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote

import click

from ...domain.context.address import Reference
from ...domain.context.description import counted, source_of
from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.ids import decoded_id, split_stream_id
from ...domain.memory.events import MemoryForgotten, MemoryRemembered, MemoryRestored
from ...domain.memory.memory import MemoryScope
from ...domain.memory.records import MemoryKind, MemoryRecord
from ...domain.spans import Ref, refs_of
from ..queries.origins import Item, first_events
from ..store import Store
from ..views.shapes import named_shape
from . import args
from .changes import content, is_json, items, parsed, report, texts
from .completion import at_moment, reference_argument
from .lines import item_view_in, print_shown, shown_of
from .render import note, one_line
from .search import search_command


def scope(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the name of a scope that a command changes, so it must not have a moment."""
    if "@" in value:
        fault = "the past stays as it was, so leave out @V; an @ in the name of a scope is written %40"
        raise click.BadParameter(f"{value!r}: {fault}")
    return args.existing(ctx, param, value)


def scope_named(store: Store, name: str) -> MemoryScope:
    """
    Return a scope; its name may be given with the kind or without.

    Raises:
        NotFoundError: nothing was ever remembered in this scope.
        InvalidInputError: the context is of another kind.
    """
    context_id = split_stream_id(args.stream_of(store, name, ("memory",)))[1]
    return store.memory().scope(decoded_id(context_id))


def scope_or_new(store: Store, name: str) -> MemoryScope:
    """
    Return a scope by its name; it may be new.

    Raises:
        InvalidInputError: the name cannot be that of a scope, or is the whole name of another context.
    """
    try:
        return scope_named(store, name)
    except NotFoundError:
        pass
    except InvalidInputError:
        # A chat of the same id does not matter, unless its kind is in front.
        if store.log.head(name):
            raise
    return store.memory().scope(decoded_id(name.removeprefix("memory:")))


everything = args.flag(
    "--all", "is_all", help="Every record, instead of keys; `restore` leaves out keys that have a new value."
)


@click.command("remove", short_help="Forget what is under a key.")
@args.argument("context", help="The scope.", metavar="SCOPE", callback=scope)
@items(required=False, metavar="KEY", help="The keys.")
@everything
@args.reason
@args.change_options
def remove(context: str, items: tuple[str, ...], is_all: bool, reason: str | None) -> None:
    """
    Forget what is remembered in SCOPE under KEY, or everything; `refold memory restore` takes it back.

    It stays in the past: `refold memory show SCOPE@V`.

    With --json: {context, kind, version, items: [{stream, version, id}]}; id is the key.
    """

    def forget(shown: MemoryScope, key: str | None) -> None:
        if not shown.forget(key, reason=reason) and key is not None:
            way_out = f"`refold memory show {quote(shown.id)}` lists what there is"
            raise NotFoundError(f"nothing is remembered in {shown.stream_id} under {key!r}: {way_out}")

    _require_choice(items, is_all)
    with args.changing() as store:
        _changed(store, context, items, forget, kind=MemoryForgotten, done="forgotten")


@click.command("restore", short_help="Take back what was forgotten.")
@args.argument("context", help="The scope.", metavar="SCOPE", callback=scope)
@items(required=False, metavar="KEY", help="The keys.")
@everything
@args.change_options
def restore(context: str, items: tuple[str, ...], is_all: bool) -> None:
    """
    Take back what was forgotten last in SCOPE under KEY, or under every key that is not remembered anew.

    With --json: {context, kind, version, items: [{stream, version, id}]}; id is the key.
    """
    _require_choice(items, is_all)
    with args.changing() as store:
        _changed(store, context, items, MemoryScope.restore, kind=MemoryRestored, done="restored")


def _require_choice(keys: tuple[str, ...], is_all: bool) -> None:
    if bool(keys) == is_all:
        raise args.usage_error("give either KEY or --all")


def _changed(
    store: Store,
    name: str,
    keys: tuple[str, ...],
    change: Callable[[MemoryScope, str | None], object],
    *,
    kind: type[MemoryForgotten | MemoryRestored],
    done: str,
) -> None:
    shown = scope_named(store, name)
    before = shown.version
    with store.transaction():
        for key in dict.fromkeys(keys) or (None,):
            change(shown, key)
    refs = [
        ref.within(shown.stream_id)
        for recorded in shown.recorded_events(after=before, until=shown.version)
        if isinstance(recorded.event, kind)
        for ref in refs_of(recorded.event.items)
    ]
    born = first_events(store.log, refs)
    named = [named_shape(ref, shown.stream_id, born[ref].event.key) for ref in refs]
    report(shown, f"{counted(len(refs), 'record')} {done}", {"items": named})
    if not refs:
        note(f"there is nothing to be {done}: nothing was changed")


@click.command("show", short_help="Show what there is, now or at a moment of the past.")
@reference_argument("SCOPE[@V]", "The scope, and a moment.")
@items(required=False, metavar="KEY", help="The keys.")
@at_moment("SCOPE")
@args.text("--prefix", metavar="P", help="Only keys with this beginning.")
@click.option("--kind", type=click.Choice([kind.value for kind in MemoryKind]), help="Only records of this kind.")
@args.text("--tag", metavar="T", help="Only records with this tag.")
@args.flag(
    "--evicted",
    help="The records that were forgotten and are not back, with the reason, instead of the present records.",
)
@args.number("--tail", help="Only the last N records.")
@args.answer_options
def show(
    reference: Reference,
    items: tuple[str, ...],
    moment: str | None,
    prefix: str | None,
    kind: str | None,
    tag: str | None,
    evicted: bool,
    tail: int | None,
) -> None:
    """
    Show what is remembered in a scope, the newest last, now or at a moment of the past; with KEY these records only.

    A name of a scope with @, .. or % in it is written with these percent-encoded, as `refold contexts` prints it.

    With --json: what `refold show --json` prints.
    """
    args.require_one_moment(reference, moment, "SCOPE")

    def is_wanted(item: Item) -> bool:
        return (
            isinstance(item, MemoryRemembered)
            and item.key.startswith(prefix or "")
            and kind in (None, item.kind)
            and (tag is None or tag in item.tags)
        )

    with args.reading() as store:
        view = item_view_in(store, reference, moment, "memory")
        is_filtered = any((prefix, kind, tag))
        shown = shown_of(view, evicted=evicted, tail=tail, names=items, is_wanted=is_wanted if is_filtered else None)
        print_shown(shown, ids=False)


@click.command("add", short_help="Remember a value under a key.")
@args.argument("context", help="The scope.", metavar="SCOPE", callback=scope)
@args.argument("key", help="The key; its old value is replaced.", metavar="KEY", callback=args.required_text)
@content("VALUE")
@is_json("VALUE")
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in MemoryKind]),
    default=MemoryKind.SEMANTIC.value,
    show_default=True,
    help="Events (episodic), facts (semantic) or methods (procedural).",
)
@click.option("--tag", "tags", metavar="T", callback=texts, multiple=True, help="A tag of the record.")
@args.change_options
def add(context: str, key: str, content: str, is_json: bool, kind: str, tags: tuple[str, ...]) -> None:
    """
    Remember VALUE in SCOPE under KEY, in the place of what is remembered there.

    VALUE is a text, or with --parse JSON; - takes it from stdin. A scope is there as soon as it has a record.

    With --json: {context, kind, version, item: {stream, version, id}, replaced}; id is the key, replaced names the
    record that was there, and is null where there was none.
    """
    value = parsed(content, is_json=is_json)
    with args.changing() as store:
        chosen = scope_or_new(store, context)
        is_new = not chosen.version
        chosen.put(MemoryRecord(scope=chosen.scope, key=key, value=value, kind=MemoryKind(kind), tags=list(tags)))
        (recorded,) = chosen.recorded_events(after=chosen.version - 1, until=chosen.version)
        old = recorded.event.replaced
        shape = {
            "item": named_shape(Ref(recorded.version), chosen.stream_id, key),
            "replaced": None if old is None else named_shape(old, chosen.stream_id, key),
        }
        instead = f", in the place of {source_of('', old.version)}" if old else ""
        report(chosen, f"{one_line(key)} remembered{instead}", shape)
    if is_new:
        note(f"nothing was remembered in {chosen.scope} before")


command = args.group(
    "memory",
    "Show, change and search what is remembered: values by key, in scopes such as user:42.",
    [show, add, remove, restore, search_command("memory", "--scope", "SCOPE")],
)
