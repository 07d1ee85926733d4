"""
Completion of words in a shell: `refold completion` prints the script that a shell needs for it, and the functions here
complete contexts, their moments and their items.

A shell asks while its user types, so an answer is short, and a database that cannot be read completes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from ...domain.chat.events import added_item
from ...domain.context.address import Reference
from ...domain.errors import RefoldError
from ...domain.ids import ITEM
from ...domain.kinds import KINDS
from ..context_streams import names_begun, streams_named
from ..open import open_store
from ..store import Store
from .args import address, argument, existing, given_database, given_keys, reference
from .render import Command

VARIABLE = "_REFOLD_COMPLETE"
OFFERED_MAX = 200
VERSIONS_MAX = 20
# Names and items are looked for in this many events, the newest of a context: a long one must not keep a shell waiting.
EVENTS_READ_MAX = 1_000
# The names under which commands have the context whose items and moments are asked for.
CONTEXT_ARGUMENTS = ("context", "reference", "subject", "name")
# Where bash divides a word, it replaces only the part behind the last colon, or from the last @ on.
BREAKS = {":": 1, "@": 0}
# Bash inserts an offered word as it is, and would run a `$(command)` in it: names may come from strangers.
PLAIN = re.compile(r"[\w@%+=:,./-]+")


class Bash(BashComplete):
    """Bash, which must get the line as it was typed: it would divide `chat:support@3` into five words."""

    source_template = BashComplete.source_template.replace(
        'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD',
        'COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS"',
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the incomplete word, and the incomplete word."""
        line = os.environ.get("COMP_LINE")
        if line is None:
            return super().get_completion_args()
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1].isspace() else ""
        dividing = [sign for sign in BREAKS if sign in incomplete and sign in os.environ.get("COMP_WORDBREAKS", "")]
        self._kept = max((incomplete.rfind(sign) + BREAKS[sign] for sign in dividing), default=0)
        return words[1:], incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return the completions, without names that have a character with a meaning to bash or to a terminal."""
        found = super().get_completions(args, incomplete)
        return [one for one in found if one.type != "plain" or PLAIN.fullmatch(one.value)]

    def format_completion(self, item: CompletionItem) -> str:
        """Return a completion without the part of the word that bash keeps."""
        return f"{item.type},{item.value[getattr(self, '_kept', 0) :]}"


add_completion_class(Bash)


def named_contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the contexts that begin with a word, or after an `@` the moments of the context before it."""
    name, at, moment = incomplete.partition("@")
    first, dots, begun = moment.rpartition("..")

    def offered(store: Store) -> Iterator[str]:
        if at:
            return (f"{name}@{first}{dots}{one}" for one in _moments(store, name, begun))
        return names_begun(store.log, name, limit=OFFERED_MAX)

    return _names_offered(ctx, offered)


def offered_moments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the moments that begin with a word, of the context that the words before it name."""
    return _names_offered(ctx, lambda store: _moments(store, _context_of(ctx), incomplete))


def offered_items(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of items that begin with a word, of the context that the words before it name."""
    return _names_offered(ctx, lambda store: _begun(_items(_last_events(store, _context_of(ctx))), incomplete))


def _names_offered(ctx: click.Context, offered: Callable[[Store], Iterator[str]]) -> list[str]:
    try:
        with open_store(given_database(ctx), create=False, read_only=True, keys=given_keys(), encrypt=None) as store:
            return list(islice(offered(store), OFFERED_MAX))
    except (RefoldError, OSError):
        return []


def _context_of(ctx: click.Context) -> str:
    """Return the context that the words before the incomplete one name; empty if there is none."""
    given = [value for name, value in ctx.params.items() if name in CONTEXT_ARGUMENTS and value]
    # Before an option without its value click does not assign the words to arguments.
    found = next(iter([*given, *ctx.args]), "")
    return found.context if isinstance(found, Reference) else str(found).partition("@")[0]


def _moments(store: Store, name: str, begun: str) -> Iterator[str]:
    """Yield the names, the newest versions and, behind `item:`, the ids of items of a context."""
    events = _last_events(store, name)
    names = {event.name: None for _, event in events if event.__struct_config__.tag.endswith(".named.v1")}
    newest = [str(version) for version, _ in events[:VERSIONS_MAX]]
    items = (ITEM + item for item in _items(events)) if begun else ()
    return _begun(chain(sorted(names), newest, items), begun)


def _last_events(store: Store, name: str) -> list[tuple[int, Any]]:
    """Return the last events of a context with their versions, the newest first."""
    streams = streams_named(store.log, name, KINDS) if name else []
    if len(streams) != 1:
        return []
    head = store.log.head(streams[0])
    events = store.log.read_events(streams[0], after=max(0, head - EVENTS_READ_MAX))
    return list(zip(range(head, 0, -1), reversed(events), strict=False))


def _items(events: Sequence[tuple[int, Any]]) -> Iterator[str]:
    """Yield the ids of the items that events added, and of calls; each once."""
    added = ((added_item(event) or event) for _, event in events)
    found = (getattr(item, field, None) for item in added for field in ("id", "call_id"))
    yield from dict.fromkeys(one for one in found if isinstance(one, str))


def _begun(words: Iterable[str], begun: str) -> Iterator[str]:
    return (word for word in words if word.startswith(begun))


@click.command("completion")
@argument("shell", help="The shell: bash 4.4 or newer, zsh, or fish.", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """
    Print the script with which a shell completes commands, options, contexts, their versions and items.

    bash: eval "$(refold completion bash)" in ~/.bashrc; zsh: the same with zsh, in ~/.zshrc; fish: refold completion
    fish > ~/.config/fish/completions/refold.fish.
    """
    made = get_completion_class(shell)
    assert made is not None, "click has the three shells"
    click.echo(made(ctx.find_root().command, {}, "refold", VARIABLE).source())


context = argument("context", help="The context.", metavar="CTX", callback=existing, shell_complete=named_contexts)


def reference_argument(metavar: str, help: str = "The context, and a moment.") -> Callable[[Command], Command]:
    """Return the decorator for an argument that names a context and, with `@`, a moment of it."""
    return argument("reference", help, metavar=metavar, callback=reference, shell_complete=named_contexts)


context_and_moment = reference_argument("CTX[@V]")


def at_moment(reference: str) -> Callable[[Command], Command]:
    """Return the option `--at` of a command whose argument may name a moment, too."""
    help_text = f"The moment, if it is not in {reference}@V."
    return click.option("--at", "moment", metavar="X", callback=address, shell_complete=offered_moments, help=help_text)
