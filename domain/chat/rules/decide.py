"""The rules of a chat context: commands in, events out, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from ...context.decider import Decider, NameVersion, decide_name
from ..events import Named
from ..state.fold import EMPTY, ChatState, Completed, fold
from ..state.loading import complete, pages, with_tail
from ..state.packed import PACKING
from . import calls, commands, edits
from .merging import add_other_summary, merge
from .summaries import decide_summary, undo_summary
from .truncation import truncate


def decide(command: commands.ChatCommand, state: ChatState) -> Sequence[Completed]:
    """
    Return the events that carry out `command`, or none if nothing needs to change.

    The last event that changes the view names the items at the end of the view.

    Raises:
        DuplicateItemError: another item with other content has this id.
        NotFoundError: an item that the context never held.
        InvalidInputError: an invalid name, version or limit; an item that is pinned.
        DecisionRefusedError: an item to be summarised changed while the summary was written.
        ApprovalPendingError: an output was given for a call that waits for a person's decision.
        CallSettledError: a call has another output, or another decision was made on it.
    """
    decided = _decided(command, state)
    # Appended items are the end of the view, so no event needs to name it.
    return decided if isinstance(command, commands.AddItems) else with_tail(decided, state)


def _decided(command: commands.ChatCommand, state: ChatState) -> Sequence[Completed]:
    match command:
        case commands.AddItems(stream=stream, items=items, fresh=is_fresh):
            return edits.require_ids(items) if is_fresh else edits.new_items(stream, items, state)
        case commands.Open(opened=opened):
            return [] if state.opened else [opened]
        case commands.Begin(forked=forked, messages=messages):
            return [] if state.opened else [forked, *messages]
        case commands.AnswerCall():
            return calls.answer_call(command, state.items)
        case commands.DecideCall():
            return calls.decide_call(command, state.items)
        case commands.WritePiece():
            return edits.write_piece(command, state)
        case NameVersion():
            return decide_name(command, state.names, Named)
        case commands.SaveStates(saved=saved):
            return saved
        case commands.InsertItems():
            return edits.insert_items(command, state)
        case commands.ReplaceInstructions():
            return edits.replace_instructions(command, state)
        case commands.Merge():
            return merge(command, state)
        case commands.AddOtherSummary():
            return add_other_summary(command, state)
        case commands.Summarize():
            return decide_summary(command, state)
        case commands.UndoSummary():
            return undo_summary(command, state)
        case commands.EvictItems():
            return edits.evict_items(command, state)
        case commands.RestoreItems():
            return edits.restore_items(command, state)
        case commands.PinItems():
            return edits.pin_items(command, state)
        case commands.Clear():
            return edits.clear(command, state)
        case commands.Truncate():
            return truncate(command, state)


CHAT: Decider[ChatState] = Decider(decide, fold, EMPTY, complete, PACKING, pages=pages)
