"""
Completion of words in a shell: `refold completion` prints the script that a shell needs for it, and the functions here
complete contexts and their versions.

A shell asks while its user types, so an answer is short, and a database that cannot be read completes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class, split_arg_string

from ...domain.errors import RefoldError
from ...domain.ids import split_stream_id
from ...domain.kinds import KINDS
from ..open import open_store
from ..opening import streams_named
from ..store import Store
from .args import DEFAULT_DATABASE

VARIABLE = "_REFOLD_COMPLETE"
CONTEXTS_MAX = 200
VERSIONS_MAX = 20
# Where bash divides a word, it replaces only the part behind the last colon, or from the last @ on.
BREAKS = {":": 1, "@": 0}


class Bash(BashComplete):
    """Bash, which must get the line as it was typed: it would divide `chat:support@3` into five words."""

    source_template = BashComplete.source_template.replace(
        'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD',
        'COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS"',
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one to complete, and that one."""
        line = os.environ.get("COMP_LINE")
        if line is None:
            return super().get_completion_args()
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1].isspace() else ""
        dividing = [sign for sign in BREAKS if sign in incomplete and sign in os.environ.get("COMP_WORDBREAKS", "")]
        self._kept = max((incomplete.rfind(sign) + BREAKS[sign] for sign in dividing), default=0)
        return words[1:], incomplete

    def format_completion(self, item: click.shell_completion.CompletionItem) -> str:
        """Return a completion without the part of the word that bash keeps."""
        return f"{item.type},{item.value[getattr(self, '_kept', 0) :]}"


add_completion_class(Bash)


def named_contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the contexts that a word may mean, or behind `@` the names and the newest versions of its context."""
    location = ctx.params.get("location") or ctx.find_root().params.get("db") or DEFAULT_DATABASE
    name, at, moment = incomplete.partition("@")
    try:
        with open_store(location, create=False, read_only=True) as store:
            found = _moments(store, name, moment) if at else _contexts(store, name)
            return [one for _, one in zip(range(CONTEXTS_MAX), found, strict=False)]
    except (RefoldError, OSError):
        return []


def _contexts(store: Store, begun: str) -> Iterator[str]:
    kind, colon, _ = begun.partition(":")
    if colon and kind in KINDS:
        yield from store.log.streams(begun)
        return
    for kind in KINDS:
        yield from (split_stream_id(stream)[1] for stream in store.log.streams(f"{kind}:{begun}"))


def _moments(store: Store, name: str, moment: str) -> Iterator[str]:
    first, dots, begun = moment.rpartition("..")
    streams = streams_named(store.log, name, KINDS)
    if len(streams) != 1:
        return
    head = store.log.head(streams[0])
    events: list[Any] = list(store.log.read_events(streams[0]))
    names = {event.name: None for event in events if event.__struct_config__.tag.endswith(".named.v1")}
    newest = map(str, range(head, max(0, head - VERSIONS_MAX), -1))
    yield from (f"{name}@{first}{dots}{one}" for one in (*sorted(names), *newest) if one.startswith(begun))


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """
    Print the script with which a shell completes commands, options, contexts and their versions.

    bash: eval "$(refold completion bash)" in ~/.bashrc; zsh: the same with zsh, in ~/.zshrc; fish: refold completion
    fish > ~/.config/fish/completions/refold.fish.
    """
    made = get_completion_class(shell)
    assert made is not None, "click has the three shells"
    click.echo(made(ctx.find_root().command, {}, "refold", VARIABLE).source())
