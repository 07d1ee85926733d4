"""One run object for each round and agent in a process."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from ..canonical import require_unicode
from ..concurrency.locks import renew_in_child, synchronized
from ..context.context import Attachment, detached_attachment
from ..context.folded_stream import Place
from ..context.journal import OPENING, Journal
from ..context.transaction import current_or_new_transaction, current_transaction, log_within
from ..errors import ConcurrencyError, ContextNotFoundError, InvalidInputError, NotFoundError
from ..log.envelope import NAME_THE_WRITER
from ..log.gate import opening_allowed
from ..log.ports import StreamEnd
from .commands import Begin
from .events import RunOpened
from .identity import RunId, flush_streams
from .rules import RUNS
from .run import Run
from .state import RunState

# A process may have any number of rounds with sub-agents.
NUMBERS_KEPT = 1_024


class RunFactory:
    """
    Opens the runs of one log, a store's or one in memory; may be called from any thread.

    All callers get the same object for a run, as long as it is referenced; after that it is released. The objects are
    of the class `runs`.
    """

    def __init__(self, attachment: Attachment | None = None, runs: type[Run] = Run) -> None:
        self._attachment = detached_attachment() if attachment is None else attachment
        self._class = runs
        self._runs: WeakValueDictionary[RunId, Run] = WeakValueDictionary()
        # An open transaction keeps the journals on which its events were decided.
        self._journals: WeakValueDictionary[RunId, Journal[RunState]] = WeakValueDictionary()
        # The number of the last sub-agent that was created here, by its main run, in the order of their last use.
        self._subs: dict[RunId, int] = {}
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    @synchronized
    def run(
        self,
        user_id: str,
        session_id: str,
        run_id: int = 0,
        sub_id: int | None = 0,
        *,
        agent: str | None = None,
        restore: bool = True,
        create: bool = True,
    ) -> Run:
        """
        Open a run, or create it; with `sub_id=None`, create one for the next free sub-agent.

        A new round of the main agent goes back over the earlier ones, unless `restore` is False.

        Raises:
            InvalidInputError: a part of the identity is not valid, the run is another agent's, or the sub-agent's main
                run does not exist.
            NotFoundError: `create` is False, and the run does not exist or `sub_id` is None.
        """
        if agent is not None:
            agent = require_unicode(agent, "the agent")
        user_id, session_id = require_unicode(user_id, "user_id"), require_unicode(session_id, "session_id")
        if sub_id is None:
            main = RunId(user_id, session_id, run_id)
            if not create:
                raise NotFoundError(f"sub_id=None creates a new run beside {main.stream!r}: give a number to open one")
            return self._next_sub(main, agent)
        identity = RunId(user_id, session_id, run_id, sub_id)
        with opening_allowed(self._attachment.log, identity.stream):
            run = self._runs.get(identity)
            run = self._changed_here(identity) if run is None else run
            if run is not None and not run._journal.is_void:
                _require_same(run.agent, run.stream_id, agent)
                return run
            return self._opened(identity, agent, restore=restore, create=create)

    @synchronized
    def keep(self, run: Run) -> None:
        """Return an adopted run to all later callers that open it."""
        self._runs[run.identity] = run

    @synchronized
    def release(
        self,
        user_id: str | None = None,
        session_id: str | None = None,
        run_id: int | None = None,
        sub_id: int | None = None,
    ) -> int:
        """Release all runs, or those of a user, session, round or agent; return their number. Recorded events stay."""
        wanted = (user_id, session_id, run_id, sub_id)
        leaving = [key for key in self._runs if all(part in (None, own) for part, own in zip(wanted, key, strict=True))]
        # A run without references may have left the dict in the meantime.
        return sum(self._runs.pop(key, None) is not None for key in leaving)

    def _changed_here(self, identity: RunId) -> Run | None:
        """Return a run that the open transaction has changed, if the object that changed it was released; else None."""
        journal = self._journals.get(identity)
        if journal is None or not journal.is_changed_within(current_transaction(journal.log)):
            return None
        return self._new_run(journal, identity)

    def _opened(self, identity: RunId, agent: str | None, *, restore: bool, create: bool) -> Run:
        journal = self._journal(identity, agent)
        if journal.version:
            return self._new_run(journal, identity)
        if not create:
            raise ContextNotFoundError(journal.place.stream, ["run"])
        goes_back = restore and bool(identity.run_id) and not identity.sub_id
        if not (
            self._begin_with_earlier_rounds(journal, identity, agent) if goes_back else _begin(journal, identity, agent)
        ):
            # Another process created it at the same moment, so it is only opened.
            journal = self._journal(identity, agent)
        return self._new_run(journal, identity)

    def _begin_with_earlier_rounds(self, journal: Journal[RunState], identity: RunId, agent: str | None) -> bool:
        """
        Create a run that goes back over the rounds before it, in one transaction; return False if another process
        created it.
        """
        try:
            with current_or_new_transaction(self._attachment.log):
                if not _begin(journal, identity, agent):
                    return False
                Run(journal, self._attachment, identity).restore_previous_runs()
        except ConcurrencyError:
            return False
        return True

    def _next_sub(self, main: RunId, agent: str | None) -> Run:
        log = log_within(self._attachment.log)
        if not log.head(main.stream):
            raise InvalidInputError("Cannot initialize Context class in main agent without sub_id.")
        number = self._subs.get(main, 0) + 1
        while True:
            identity = main._replace(sub_id=number)
            # The journal begins at version 0, because an existing run with this number may have another agent.
            journal = self._journal_at(StreamEnd(0), identity, agent)
            if not log.head(identity.stream) and _begin(journal, identity, agent):
                if current_transaction(self._attachment.log) is None:
                    # A transaction may be rolled back, and then the number is free again.
                    self._note_sub(main, number)
                return self._new_run(journal, identity)
            number += 1

    def _note_sub(self, main: RunId, number: int) -> None:
        self._subs.pop(main, None)
        self._subs[main] = number
        # If the number of a main run is dropped, its next sub-agent is looked for in the log from number 1 on.
        while len(self._subs) > NUMBERS_KEPT:
            del self._subs[next(iter(self._subs))]

    def _journal(self, identity: RunId, agent: str | None) -> Journal[RunState]:
        log, stream = self._attachment.log, identity.stream
        flush_streams(self._attachment, stream)
        end = log.end(stream)
        if end.version:
            opened_with = getattr(log.read_events(stream, until=1)[0], "agent", None)
            _require_same(opened_with, stream, agent)
            agent = opened_with
        return self._journal_at(end, identity, agent)

    def _journal_at(self, end: StreamEnd, identity: RunId, agent: str | None) -> Journal[RunState]:
        place = Place(identity.stream, identity.session_id, agent)
        unflushed = self._attachment.unflushed
        return Journal(self._attachment.log, place, RUNS, version=end.version, digest=end.digest, unflushed=unflushed)

    def _new_run(self, journal: Journal[RunState], identity: RunId) -> Run:
        # Set after the opening: it must be in the log before events that depend on it are queued.
        journal.durability = self._attachment.durability
        run = self._class(journal, self._attachment, identity)
        self._runs[identity], self._journals[identity] = run, journal
        return run


def _begin(journal: Journal[RunState], identity: RunId, agent: str | None) -> bool:
    """Create the run; return False if another process created it at the same moment."""
    user, session, number, sub = identity
    opened = RunOpened(user=user, session=session, agent=agent, round=number, sub=sub)
    try:
        journal.execute(Begin(opened), call=OPENING, catch_up=False)
    except ConcurrencyError:
        return False
    return True


def _require_same(agent: str | None, stream: str, given: str | None) -> None:
    if given not in (None, agent):
        raise InvalidInputError(f"{stream} was opened with agent {agent!r}, not {given!r}: {NAME_THE_WRITER}")
