"""`refold approvals`: the calls that wait for a person's decision, and the decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from ...domain.chat.approvals import Approvals
from ...domain.chat.pairing import Approval
from ...domain.clock import REAL_SYSTEM
from ...domain.errors import NotFoundError
from ..queries.approvals import PendingApproval
from ..views.answer_shapes import waiting_shape
from ..views.shapes import approval_shape
from . import args
from .changes import report
from .completion import context, offered_items
from .render import note, one_line, print_json_list, print_table, prints_json, relative

HEADINGS = ("CONTEXT", "CALL", "REQUESTED", "BY", "WHAT")
call = args.argument(
    "call",
    help="The call id that `refold approvals` prints, or the id of the call's item.",
    metavar="CALL",
    callback=args.required_text,
    shell_complete=offered_items,
)
by = args.text(
    "--by", metavar="NAME", required=True, help="The name of the person who decides; it is the actor of the event."
)
SHAPE = """
    CALL is the call id that `refold approvals` prints, or the id of the call's item.

    With --json: {context, kind, version, call_id, approval: {state, by, because, version}}.
"""


@click.group("approvals", cls=args.OrderedGroup, invoke_without_command=True)
@args.answer_options
@click.pass_context
def approvals(context: click.Context) -> None:
    """
    List the calls that wait for a person's decision, the longest waiting first; or decide on one.

    With --json: an array of {context, call_id, item_id, name, arguments, agent, requested_at, approval: {state, by,
    because, version}}.
    """
    if context.invoked_subcommand is not None:
        return
    found = args.answered(lambda store: store.pending_approvals())
    if prints_json():
        print_json_list(map(waiting_shape, found))
    elif found:
        _print_table(found)
    else:
        note("no call waits for a decision")


def _print_table(found: Sequence[PendingApproval]) -> None:
    now = REAL_SYSTEM.now()
    print_table([HEADINGS, *(_cells(waiting, now) for waiting in found)])


def _cells(waiting: PendingApproval, now: float) -> tuple[str, ...]:
    asked, approval = waiting.call, waiting.call.approval
    why = f" (because: {approval.because})" if approval is not None and approval.because else ""
    return (
        one_line(waiting.context),
        one_line(asked.call_id),
        relative(waiting.requested_at, now),
        one_line((approval.by if approval is not None else None) or "-"),
        one_line(f"{asked.name}({asked.arguments}){why}"),
    )


def _decide(context: str, call_id: str, by: str, decide: Callable[[Approvals], Approval]) -> None:
    """Record a decision, and print the state of the call."""
    with args.changing(by) as store:
        chat = args.opened(store, context)
        before = chat.version
        try:
            approval = decide(chat.approvals)
        except NotFoundError as error:
            fault = f"{chat.stream_id} has no call {call_id!r}: `refold approvals` lists those that wait"
            raise NotFoundError(fault) from error
        said = f"the call {call_id} is {approval.state} by {approval.by}"
        shape = {"call_id": call_id, "approval": approval_shape(approval)}
        report(chat, one_line(said), shape)
        if chat.version == before:
            note("this was decided so before: nothing was changed")


def _add_decision(name: str, about: str, decide: Callable[[Approvals], Callable[..., Approval]]) -> None:
    """Add a command that decides on a call as it was made; `about` is the first line of its help."""

    @approvals.command(name, help=f"{about}\n" + SHAPE)
    @context
    @call
    @by
    @args.reason
    @args.answer_options
    def command(context: str, call: str, by: str, reason: str | None) -> None:
        _decide(context, call, by, lambda made: decide(made)(call, by=by, because=reason))


_add_decision("approve", "Allow a call of CTX to run as the model made it.", lambda made: made.approve)
_add_decision("reject", "Forbid a call of CTX to run; the model is sent by whom and why.", lambda made: made.reject)


@approvals.command("change", help="Allow a call of CTX to run, with ARGUMENTS instead.\n" + SHAPE)
@context
@call
@args.argument(
    "arguments",
    help="A JSON object, with which the call may run instead.",
    metavar="ARGUMENTS",
    callback=args.required_text,
)
@by
@args.reason
@args.answer_options
def change(context: str, call: str, arguments: str, by: str, reason: str | None) -> None:
    """Change a call."""
    _decide(context, call, by, lambda made: made.change(call, arguments, by=by, because=reason))
