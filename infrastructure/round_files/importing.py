"""
Making runs from the files of rounds: all files are read and compared with the store before anything is written.

An import only adds rounds: a round that is in the store is never changed by a file.
"""

from __future__ import annotations

import logging
import os
from typing import Literal

import msgspec

from ...domain.context.transaction import current_or_new_transaction
from ...domain.errors import InvalidInputError, NotFoundError, RefusedError
from ...domain.log.envelope import acting
from ...domain.log.ports import Log
from ...domain.trajectory.factory import RunFactory
from ...domain.trajectory.identity import RunId
from ...domain.trajectory.rounds import IMPORTED, are_same, export_round, import_round
from ..exchange.rehearsal import require_projectable, store_above
from ..store import Store
from .files import ReadRound, read_round_files, rounds_in

logger = logging.getLogger("refold.trajectory")


class ImportedRound(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one round; `unchanged` means that it was there already. `notes` name data that was left out."""

    run: RunId
    outcome: Literal["added", "unchanged"]
    nodes: int
    edges: int
    messages: int
    notes: tuple[str, ...] = ()


def import_round_files(
    store: Store,
    session_root: str | os.PathLike[str],
    *,
    user_id: str,
    session_id: str,
    run_id: int | None = None,
    sub_id: int | None = None,
) -> tuple[ImportedRound, ...]:
    """
    Make runs of a session from the files below its folder: all of them, or those of a round or a sub-agent.

    The files may be in our form or the originals'. Each round is one transaction, and a new round of the main agent
    restores the earlier ones. A round that is there already is left as it is. The version that holds exactly the
    imported round is named `imported`.

    Raises:
        NotFoundError: there are no such files.
        InvalidInputError: a file is broken or of another session, or the store has the round with other content;
            nothing was written.
        ConcurrencyError, StorageError: the rounds before the one with the error are written; import them again.
    """
    wanted = [one for one in rounds_in(session_root) if run_id in (None, one[0]) and sub_id in (None, one[1])]
    if not wanted:
        raise NotFoundError(f"there are no files of such rounds in {os.fspath(session_root)!r}: see SESSION/.context")
    found = [(RunId(user_id, session_id, *one), read_round_files(session_root, *one)) for one in wanted]
    for identity, read in found:
        _require_session(read, identity)
    # All rounds are compared before the first one is written.
    present = {identity for identity, read in found if _is_present(store, read, identity)}
    above = store_above(store)
    for identity, read in found:
        if identity not in present:
            _rehearse(above, read, identity)
    return tuple(_imported(store, read, identity, is_present=identity in present) for identity, read in found)


def import_missing_rounds(runs: RunFactory, log: Log, session_root: str | os.PathLike[str], current: RunId) -> None:
    """
    Make runs from the files of the rounds before `current` that are not in the log, as far as they can be read.

    `current` names the agent whose rounds are wanted. A file that cannot be read is skipped, with a warning.
    """
    for number, sub_id in rounds_in(session_root):
        identity = current._replace(run_id=number)
        if sub_id != current.sub_id or number >= current.run_id or log.head(identity.stream):
            continue
        try:
            read = read_round_files(session_root, number, sub_id)
            _require_session(read, identity)
            with acting(actor="import"), current_or_new_transaction(log):
                import_round(runs.run(*identity, agent=read.record.agent), read.record)
        except RefusedError as error:
            logger.warning("round %s of %s is not restored: %s", number, session_root, error)


def _require_session(read: ReadRound, identity: RunId) -> None:
    user, session = read.record.user_id, read.record.session_id
    for what, held, given in (("user", user, identity.user_id), ("session", session, identity.session_id)):
        if held not in (None, given):
            raise InvalidInputError(f"{read.path} is of the {what} {held!r}, and not of {given!r}: import it as that")


def _is_present(store: Store, read: ReadRound, identity: RunId) -> bool:
    """Return whether the store has the same round, in its present state or as it was imported."""
    if not store.log.head(identity.stream):
        return False
    run = store.run(*identity, create=False)
    views = [run, *([run.at(IMPORTED)] if IMPORTED in run.names() else [])]
    if not any(are_same(read.record, export_round(view)) for view in views):
        raise InvalidInputError(
            f"{read.path} differs from the run {identity.stream!r}, which is there already: the store is the truth, "
            "so import the file under another session"
        )
    return True


def _rehearse(above: Store, read: ReadRound, identity: RunId) -> None:
    """Make a run in memory, so that an error in it comes before an earlier one is written."""
    try:
        _imported(above, read, identity, is_present=False)
        require_projectable(above.log, identity.stream)
    except RefusedError as error:
        raise InvalidInputError(f"{read.path}: no run can be made from it: {error}") from error


def _imported(store: Store, read: ReadRound, identity: RunId, *, is_present: bool) -> ImportedRound:
    record = read.record
    if not is_present:
        # The import is recorded as the actor; only the file may name the original actors.
        with acting(actor="import"), store.transaction():
            import_round(store.run(*identity, agent=record.agent), record)
    return ImportedRound(
        run=identity,
        outcome="unchanged" if is_present else "added",
        nodes=len(record.nodes),
        edges=len(record.edges),
        messages=len(record.messages),
        notes=read.notes,
    )
