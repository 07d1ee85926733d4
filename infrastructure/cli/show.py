"""`refold show`: the content of a context, now or at any moment of its past."""

from __future__ import annotations

from shlex import quote
from typing import Any, get_args

import click

from ...domain.chat.context import ReadOnlyChatContext
from ...domain.chat.pairing import PendingRule
from ...domain.context.address import Reference
from ..views.contexts import ChatItemView, RunView
from .args import answer_options, flag, note_form, number, reading, require_one_moment, usage_error
from .completion import at_moment, context_and_moment
from .lines import print_shown, shown_of, view_in
from .render import note, paged, print_json, print_json_list

PROVIDERS = ("openai", "openai-responses", "anthropic", "google")
# The providers for which an imported transcript can be printed exactly as it was.
EXACT = ("openai", "anthropic")


def print_for(
    provider: str, view: ReadOnlyChatContext, *, is_exact: bool, pending: PendingRule, tail: int | None
) -> None:
    """Print a view in the form of one of PROVIDERS: OpenAI messages as an array, others as the fields of a request."""
    match provider:
        case "openai":
            messages = view.to_openai_messages(exact=is_exact, pending=pending)
            print_json_list(messages[-tail:] if tail else messages)
        case "openai-responses":
            given, instructions = view.to_openai_responses(pending=pending)
            print_json(_with("instructions", instructions, {"input": given}))
        case "anthropic":
            messages, system = view.to_anthropic_messages(exact=is_exact, pending=pending)
            print_json(_with("system", system, {"messages": messages}))
        case "google":
            contents, instructions = view.to_google_json(pending=pending)
            print_json(_with("system_instruction", instructions, {"contents": contents}))
        case _:
            raise AssertionError(f"{provider} of PROVIDERS has no case")


def _with(name: str, instructions: Any, conversation: dict[str, Any]) -> dict[str, Any]:
    """Return a conversation with its instructions, if there are any: providers refuse a field that is null."""
    return conversation if instructions is None else {name: instructions, **conversation}


@click.command("show")
@context_and_moment
@at_moment("CTX")
@click.option(
    "--as",
    "form",
    type=click.Choice(["text", "json", *PROVIDERS]),
    default="text",
    show_default=True,
    callback=note_form,
    help="The form of the output.",
)
@flag("--valid", help=f"With --as {' or '.join(EXACT)}: the messages as they would be sent, not as they were recorded.")
@click.option(
    "--pending",
    type=click.Choice(get_args(PendingRule)),
    help="With --as and a provider: how calls without an output are sent: with a marked text as the "
    "output, without the call, or not at all (the command fails). It includes --valid.  [default: "
    "stub]",
)
@flag(
    "--evicted",
    help="The items that left the view and are not back, with the way and the reason, instead of those in it.",
)
@flag("--ids", help="Print the id of each item, too.")
@number("--tail", help="Only the last N items, or messages with --as openai.")
@answer_options
@paged
def command(
    reference: Reference,
    moment: str | None,
    form: str,
    valid: bool,
    pending: PendingRule | None,
    evicted: bool,
    ids: bool,
    tail: int | None,
) -> None:
    """
    Show what a context holds, now or at a moment of its past.

    CTX may leave out the kind (chat:) where no context of another kind has the id. Each item has the @version that
    added it beside it, or CTX@V where it came from another context, by a fork or a merge. A pool is shown by its
    descriptions: `refold pool show CTX ID` shows an item.

    --as openai and --as anthropic print the context as messages; imported messages come out as they came in. With
    --valid, and always for the other providers, the messages are those of a request: each call has an output, whatever
    was evicted. A call without an output gets a marked text as one; with --pending omit it is left out, and with
    --pending refuse the command fails.

    With --as json, or --json: {context, kind, version, head, at, opened: {user, session, agent, source, parent,
    attributes}, items: [{version, stream, position, recorded_at, actor, pinned, item}]}; an item has the fields of
    ChatContext.to_dict(), and a call has {pending, approval} beside it. A queue and a pool have limit and tags too, and
    their items {id, description, content, content_type}. With --evicted each has {how, reason, version} under `left`. A
    run has in the place of items {round, sub, closed, goes_back_over, root, initial, pointers, nodes, edges, steps,
    messages}.
    """
    _check(reference, moment, form, valid, evicted, tail)
    if pending and form not in PROVIDERS:
        raise usage_error("--pending goes with --as and a provider")
    with reading() as store:
        view = view_in(store, reference, moment)
        if file := store.archives().get(view.stream):
            note(f"its texts are in {file}: `refold unarchive {quote(view.stream)}` brings them back")
        if form in PROVIDERS and not isinstance(view, ChatItemView):
            raise usage_error(f"--as {form} goes with chats, and this is {view.stream}: take --as text or json")
        if isinstance(view, RunView):
            # Imported here, because the modules of runs double the time to start, and chats do not need them.
            from .runs import print_run

            _check_run(view, evicted=evicted, tail=tail)
            print_run(view)
        elif isinstance(view, ChatItemView) and form in PROVIDERS:
            print_for(form, view.chat, is_exact=not (valid or pending), pending=pending or "stub", tail=tail)
        else:
            shown = shown_of(view, evicted=evicted, tail=tail)
            print_shown(shown, ids=ids)


def _check_run(view: RunView, *, evicted: bool, tail: int | None) -> None:
    if evicted or tail:
        option, way_out = ("--evicted", "`refold audit`") if evicted else ("--tail", "`refold log`")
        raise usage_error(
            f"{option} goes with items, and this is {view.stream}: {way_out} tells what became of its nodes"
        )


def _check(reference: Reference, moment: str | None, form: str, valid: bool, evicted: bool, tail: int | None) -> None:
    require_one_moment(reference, moment, "CTX")
    if valid and form not in EXACT:
        raise usage_error(f"--valid goes with --as {' or '.join(EXACT)}; what is printed for others is valid always")
    if evicted and form in PROVIDERS:
        raise usage_error("--evicted goes with --as text or json: what left the view is sent to nobody")
    if tail and evicted:
        raise usage_error("--tail does not go with --evicted")
    if tail and (valid or form in PROVIDERS[1:]):
        raise usage_error(
            "--tail would take apart what belongs together here: `refold fork CTX NEW --turns N` keeps it whole"
        )
