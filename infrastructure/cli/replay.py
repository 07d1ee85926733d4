"""`refold replay`: the view that a model would have seen under another policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ...domain.chat.items import ChatItem
from ...domain.chat.replay import Replay, policy_of
from ...domain.context.description import counted
from ...domain.errors import InvalidInputError
from ..views.contexts import ChatItemView
from ..views.shapes import REPLAY_FIELDS, item_shape, replay_shape
from .args import answer_options, argument, existing, opened, reading, required_text
from .completion import named_contexts
from .lines import Row, body_of, print_rows
from .render import aligned, note, one_line, paint, print_json, prints_json

HEADINGS = ("VERSION", "TOKENS THEN", "NOW", "CACHED THEN", "NOW")


def _policy(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        policy_of(required_text(ctx, param, value))
    except InvalidInputError as error:
        raise click.BadParameter(str(error)) from error
    return value


@click.command("replay")
@argument("context", help="The chat.", metavar="CTX", callback=existing, shell_complete=named_contexts)
@click.option(
    "--policy",
    metavar="P",
    required=True,
    callback=_policy,
    help="all (everything stays), or the limit before each call: tokens:N or items:N, for which the "
    "oldest turns are left out.",
)
@click.option(
    "--seen",
    metavar="VERSION",
    type=click.IntRange(min=1),
    help="Print the items that would have been sent to the model for the call of this version.",
)
@answer_options
def command(context: str, policy: str, seen: int | None) -> None:
    """
    Run the history of a chat again under another policy, and compare the prompts that the model got with those that it
    would have got. No model is asked, and nothing is recorded.

    A line for each call: the VERSION that brought the first item of the answer, the tokens of the prompt, and how many
    of them a provider's cache would have had from the call before. All are estimates.

    With --json: {context, kind, policy, calls: [{version, tokens_then, tokens_now, cached_then, cached_now}], sums:
    {calls, tokens_then, tokens_now, cached_then, cached_now}}; with --seen {context, kind, policy, version, items}.
    """
    with reading() as store:
        chat = opened(store, context)
        replay = chat.replay(policy)
        about = {"context": chat.id, "kind": chat.stream_kind, "policy": policy}
        if seen is not None:
            _print_seen(ChatItemView(store.log, chat, chat.version), replay.seen(seen), seen, about)
        elif prints_json():
            print_json({**about, **replay_shape(replay)})
        elif replay.calls:
            _print_calls(replay)
        else:
            note(f"chat:{chat.id} holds no answer of a model: there is nothing to compare")


def _print_calls(replay: Replay) -> None:
    rows = [(f"@{call.version}", *(f"{getattr(call, field):,}" for field in REPLAY_FIELDS)) for call in replay.calls]
    sums = ("all", *(f"{getattr(replay, field):,}" for field in REPLAY_FIELDS))
    heading, *lines, last = aligned([HEADINGS, *rows, sums], right=range(len(HEADINGS)))
    click.echo(paint(heading, "dim"))
    for line in lines:
        click.echo(line)
    click.echo(paint(last, "bold"))


def _print_seen(view: ChatItemView, items: Sequence[ChatItem], version: int, about: dict[str, Any]) -> None:
    entries = view.entries_of([item.id for item in items])
    if prints_json():
        print_json({**about, "version": version, "items": [item_shape(entry) for entry in entries]})
        return
    head = f"{one_line(view.stream)} before @{version}, under {about['policy']}"
    click.echo(paint(head, "bold") + paint(f"  {counted(len(entries), 'item')}", "dim"))
    print_rows([Row(entry, body_of(entry.item)) for entry in entries])
