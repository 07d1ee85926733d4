"""
A namespace of a thread: the chat that has its messages, and forks of it where the graph went on from an older
checkpoint.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from ....domain.concurrency.locks import locked, renew_in_child, synchronized
from ....domain.context.journal import CATCH_UPS_MAX
from ....domain.errors import (
    CheckpointSupersededError,
    ConcurrencyError,
    DecisionRefusedError,
    LogWentBackError,
    NotFoundError,
)
from ....domain.ids import derived_id
from ...store import Store
from ..open_chats import user_of
from .branch import BRANCH, CHECKPOINT, FRAMEWORK, KEPT, RUN, THREAD, Branch, Saved, SavedCheckpoint, holds
from .channels import ChannelChats
from .checkpoint import BEGUN_BY_OTHERS, Loaded, Put, Reader, Recording, Write, copied_record, new_writes
from .values import Values

DELETED = "the thread was deleted"

T = TypeVar("T")


class Name(NamedTuple):
    """A namespace of a thread, with the id of its chat and the session of that."""

    thread: str
    namespace: str
    chat: str
    session: str


class Thread:
    """A namespace of a thread in a store. Its calls may come from any thread of the process."""

    def __init__(self, store: Store, name: Name) -> None:
        self.name = name
        self._store = store
        self._lock = threading.RLock()
        self._root: Branch | None = None
        self._forks: dict[str, Branch] = {}
        self._channels = ChannelChats(store, name.chat, name.session)
        renew_in_child(self)

    def _after_fork(self) -> None:
        # A thread of the parent may hold the lock, and have changed the rest by half.
        self._lock = threading.RLock()
        self._reset()

    # Reading

    @synchronized
    def newest(self) -> SavedCheckpoint | None:
        """Return the checkpoint that was saved last; None without one."""
        self._refresh()
        return self._newest_known()

    @synchronized
    def find(self, checkpoint: str, *, with_hidden: bool = False) -> SavedCheckpoint | None:
        """Return a checkpoint; None if there is none, or it was deleted and not `with_hidden`."""
        # A checkpoint that was saved again is marked as deleted in the branch that had it first.
        for is_hidden in (False, True) if with_hidden else (False,):
            for branch in self._branches():
                version = branch.version_of(checkpoint, with_hidden=is_hidden)
                if version is not None:
                    return SavedCheckpoint(branch, checkpoint, version)
        return None

    def checkpoints(self) -> Iterator[SavedCheckpoint]:
        """Yield all checkpoints, the newest first."""
        lines = locked(self._lock, lambda: [list(branch.found()) for branch in self._branches()])
        yield from heapq.merge(*lines, key=lambda found: found.id, reverse=True)

    @synchronized
    def load(self, found: SavedCheckpoint, values: Values) -> Loaded:
        """
        Return a checkpoint with the values of its channels and its writes.

        Raises:
            InvalidInputError: a type in them may not be loaded.
            DamagedError: a saved value is none.
        """
        return self._reader(values).load(found)

    @synchronized
    def present(self, values: Values) -> tuple[Loaded, str] | None:
        """
        Return the newest checkpoint with the messages that the chat shows now, and the chat as `stream@version`.

        So what others added is part of the state, also of a thread that others began; None for an empty one.
        """
        found, reader = self.newest(), self._reader(values)
        branch = found.branch if found else self._root
        if branch is None:
            return None
        loaded = reader.load(found, as_shown=True) if found else reader.begun(branch)
        return None if loaded is None else (loaded, f"{branch.chat.stream_id}@{branch.chat.version}")

    @synchronized
    def metadata(self, found: SavedCheckpoint, values: Values) -> dict[str, Any]:
        """Return the metadata of a checkpoint."""
        return self._reader(values).metadata(found)

    @synchronized
    def writes(self, found: SavedCheckpoint, values: Values) -> list[Write]:
        """Return the writes on a checkpoint, in the order in which a run applies them."""
        return self._reader(values).writes(found)

    def _reader(self, values: Values) -> Reader:
        return Reader(self._store, values, self._channels)

    def ancestors(self, found: SavedCheckpoint, values: Values) -> Iterator[Loaded]:
        """Yield the checkpoints before one, its parent first, each once; also those that were deleted."""
        # A checkpoint that was saved again after one of its descendants is an ancestor of itself.
        passed, parent = {found.id}, self._parent_of(found)
        while parent and parent.id not in passed:
            passed.add(parent.id)
            yield self.load(parent, values)
            parent = self._parent_of(parent)

    @synchronized
    def _parent_of(self, found: SavedCheckpoint) -> SavedCheckpoint | None:
        known = found.record.get("parent")
        return self.find(known, with_hidden=True) if known else None

    @synchronized
    def about(self) -> Saved:
        """Return the thread's id and namespace, as they were saved with its first checkpoint; empty without one."""
        root = next(self._branches(), None)
        while root and not root.is_read:
            root.read_back()
        return root.value(root.low) if root and root.is_alive else {}

    def holds(self, message_id: str) -> bool:
        """Return whether one of the thread's chats that are open holds a message; it waits for no other call."""
        return any(holds(one.chat, message_id) for one in self._open()) or self._channels.holds(message_id)

    # Saving

    def put(self, put: Put, values: Values) -> None:
        """
        Save a checkpoint with its messages and values, all or nothing.

        Raises:
            CheckpointSupersededError: another run has saved a checkpoint after its parent.
            InvalidInputError: a value cannot be saved.
        """
        is_begun = put.parent == BEGUN_BY_OTHERS
        whole = put._replace(parent=None) if is_begun else put
        self._retried(lambda: self._put(whole, values, is_begun=is_begun or bool(put.seen)))

    def put_writes(self, checkpoint: str, task: str, path: str, writes: Sequence[Write]) -> None:
        """Save writes of a task on a checkpoint; those that it has already stay as they are."""
        self._retried(lambda: self._put_writes(checkpoint, task, path, writes))

    # These are for a transaction; who calls them has this object alone.

    def hide(self, checkpoints: Sequence[SavedCheckpoint]) -> None:
        """Delete checkpoints; the log keeps them."""
        for found in checkpoints:
            found.branch.chat.saved_states.save(FRAMEWORK, {f"{CHECKPOINT}{found.id}": None})

    def keep_newest(self) -> None:
        """Delete all checkpoints but the newest; the log keeps them."""
        branches = list(self._branches())
        # The newest is found last: a checkpoint that another run saves after it is a conflict, and is not lost.
        newest = self._newest_known()
        for branch in branches if newest else ():
            kept = [newest.id] if newest and branch is newest.branch else []
            branch.chat.saved_states.save(FRAMEWORK, {KEPT: {"checkpoints": kept}})

    def delete(self) -> None:
        """Delete the thread; the log keeps it."""
        channels = list(self._channels.chats())
        branches = list(self._branches())
        for chat in (*channels, *(branch.chat for branch in branches)):
            chat.clear(reason=DELETED)
        if branches:
            branches[0].chat.saved_states.save(FRAMEWORK, {THREAD: None})

    def copy_to(self, target: Thread) -> None:
        """
        Copy all checkpoints to a thread that has none; values and messages are named, not copied.

        Raises:
            DecisionRefusedError: the target has checkpoints.
        """
        newest = self.newest()
        if target.newest() is not None:
            raise DecisionRefusedError(f"the thread {target.name.thread!r} has checkpoints: copy to another one")
        # The branch with the newest checkpoint comes last, so that the graph goes on from it there, too.
        if newest:
            others = [branch for branch in self._branches() if branch is not newest.branch]
            target._copy_branches([*others, newest.branch])

    # Branches

    def _reset(self) -> None:
        self._root, self._forks = None, {}
        self._channels.forget()

    def _open(self) -> list[Branch]:
        """Return the branches that are open, the root first."""
        return [branch for branch in (self._root, *list(self._forks.values())) if branch]

    def _refresh(self) -> None:
        """Open the root, or read what others recorded in it."""
        if self._root is not None:
            with suppress(LogWentBackError):
                self._root.refresh()
                return
            # An older copy of the database was put back: it is opened as that has it.
            self._reset()
        with suppress(NotFoundError):
            self._root = Branch(self._store.chat(self.name.chat, create=False, durability="commit"))

    def _newest_known(self) -> SavedCheckpoint | None:
        root = self._root
        if root is None:
            return None
        for mark in root.newest():
            branch = self._branch(mark.chat) if mark.chat else root
            found = (
                SavedCheckpoint(branch, mark.checkpoint, mark.version)
                if mark.checkpoint
                else next(branch.found(), None)
            )
            if found:
                return found
        return None

    def _branch(self, chat: str) -> Branch:
        if self._root and chat == self._root.chat.id:
            return self._root
        branch = self._forks.get(chat)
        if branch is not None:
            with suppress(LogWentBackError):
                branch.refresh()
                return branch
        branch = self._forks[chat] = Branch(self._store.chat(chat, create=False, durability="commit"))
        return branch

    def _branches(self) -> Iterator[Branch]:
        """Yield the branches, the root first; none without a thread."""
        self._refresh()
        root = self._root
        if root is None:
            return
        yield root
        while not root.is_read:
            root.read_back()
        yield from (self._branch(chat) for chat in sorted(root.chats - {root.chat.id}))

    def _begun_root(self) -> Branch:
        """Return the root; in a transaction, since its chat may be new."""
        if self._root is not None:
            return self._root
        name = self.name
        chat = self._store.chat(
            name.chat,
            user=user_of(self._store, name.session) if name.namespace else None,
            session=name.session,
            agent=FRAMEWORK,
            source=FRAMEWORK,
            durability="commit",
        )
        if chat.version > 1:
            # Others have begun it since it was looked for, and may have saved a checkpoint.
            raise ConcurrencyError(chat.stream_id, expected=0, actual=chat.version)
        return Branch(chat)

    def _beginning(self, root: Branch, *, is_begun: bool = False) -> dict[str, Saved | None]:
        """
        Return what is saved with the first checkpoint of a thread; nothing if the root has it.

        Others may have begun the chat, and the graph goes on with what they recorded.
        """
        while not (root.is_read or root.marks):
            root.read_back()
        if root.is_alive or root.marks:
            return {}
        if root.is_alive is None and len(root.chat) and not is_begun:
            raise DecisionRefusedError(
                f"the chat {root.chat.id!r} has items that the graph did not load: call `get_tuple` without a "
                "checkpoint_id before"
            )
        return {THREAD: self._about()}

    def _about(self) -> Saved:
        return {"thread": self.name.thread, "namespace": self.name.namespace}

    # Saving, once

    @synchronized
    def _retried(self, save: Callable[[], T]) -> T:
        """Save, and do so again as long as others write in between."""
        for attempt in range(CATCH_UPS_MAX):
            try:
                return save()
            except CheckpointSupersededError:
                raise
            except ConcurrencyError:
                if attempt == CATCH_UPS_MAX - 1:
                    raise
                self._channels.forget()
                for branch in self._open():
                    branch.refresh()
            except BaseException:
                # The log has all of the save or nothing of it, so it is read again.
                self._reset()
                raise
        raise AssertionError("the loop returns or raises")

    def _put(self, put: Put, values: Values, *, is_begun: bool) -> None:
        if self._root is None:
            self._refresh()
        newest = self._newest_known()
        if newest and newest.branch is not self._root:
            # The root says whether the thread went on in another branch since; an append to a fork would not notice.
            self._refresh()
            newest = self._newest_known()
        parent, is_at_end = self._parent_for(put, newest)
        # Ids grow with time, so one that is not the greatest may have been saved before.
        former = self.find(put.id) if newest and put.id <= newest.id else None
        with self._store.transaction():
            root = self._begun_root()
            if is_at_end:
                branch = parent.branch if parent else root
            else:
                branch = self._forked(root, parent, values)
            to_root = self._beginning(root, is_begun=is_begun)
            if branch is not root and (not root.marks or root.marks[-1].chat != branch.chat.id):
                to_root[f"{BRANCH}{branch.chat.id}"] = {}
            moved = former if former and former.branch is not branch else None
            if moved and newest and newest.id != put.id:
                # The graph goes on where it was.
                to_root[f"{BRANCH}{newest.branch.chat.id}"] = {}
            gone: dict[str, Saved | None] = {f"{CHECKPOINT}{put.id}": None}
            last_gone = moved.branch.chat.saved_states.save(FRAMEWORK, gone) if moved else 0
            recording = Recording(branch, parent, put, values, self._channels)
            recording.show_messages()
            last_of_root = root.chat.saved_states.save(FRAMEWORK, to_root) if to_root else 0
            recording.save(early=self._early_writes(put.id, branch))
        self._root = root
        if moved:
            moved.branch.note_saved(gone, last_gone)
        if to_root:
            root.note_saved(to_root, last_of_root)
        if branch is not root:
            self._forks[branch.chat.id] = branch
        recording.settle()

    def _parent_for(self, put: Put, newest: SavedCheckpoint | None) -> tuple[SavedCheckpoint | None, bool]:
        """
        Return the parent of a checkpoint, and whether the checkpoint comes at the end of the parent's branch.

        Raises:
            CheckpointSupersededError: it would begin a fork that nobody asked for.
        """
        if newest is None and (put.may_fork or put.parent is None):
            return None, True
        parent = newest if newest and newest.id == put.parent else None
        if parent is None and put.parent is not None:
            parent = self.find(put.parent, with_hidden=True)
        last = next(parent.branch.found(), None) if parent else newest
        is_repeated = last is not None and last.id == put.id and last.record.get("parent") == put.parent
        if is_repeated or (parent and last and last.id == parent.id):
            return (parent or last), True
        if not put.may_fork:
            known = parent or newest
            stream = known.branch.chat.stream_id if known else f"chat:{self.name.chat}"
            raise CheckpointSupersededError(stream, put.parent, newest.id if newest else None)
        return parent, False

    def _forked(self, root: Branch, parent: SavedCheckpoint | None, values: Values) -> Branch:
        """Return a new branch, which begins with the parent's messages; without a parent with none."""
        past = parent.branch.past(parent.version) if parent else root.chat.at(1)
        branch = Branch(past.fork(agent=FRAMEWORK))
        if parent:
            branch.held = parent.branch.held_at(parent.version, parent.record, values)
        return branch

    def _early_writes(self, checkpoint: str, branch: Branch) -> list[int | str]:
        """Return the events that have writes on a checkpoint which was not saved yet."""
        return [
            version if one is branch else f"{one.chat.stream_id}@{version}"
            for one in self._open()
            for version, _ in one.writes.get(checkpoint, ())
        ]

    def _put_writes(self, checkpoint: str, task: str, path: str, writes: Sequence[Write]) -> None:
        if self._root is None:
            self._refresh()
        found = self._newest_known()
        if found is None or found.id < checkpoint:
            # A run saves checkpoints in the background, so its writes may come first.
            found = None
        elif found.id != checkpoint:
            found = self.find(checkpoint, with_hidden=True)
        with self._store.transaction():
            root = self._begun_root()
            branch = found.branch if found else root
            saved = self._beginning(root, is_begun=True) if branch is root else {}
            saved |= new_writes(branch, checkpoint, task, path, writes)
            last = branch.chat.saved_states.save(FRAMEWORK, saved) if saved else 0
        self._root = root
        if saved:
            branch.note_saved(saved, last)

    def _copy_branches(self, sources: Sequence[Branch]) -> None:
        """Copy branches of another thread."""
        root = self._root.chat if self._root else None
        beginning: dict[str, Saved | None] = self._beginning(self._root) if self._root else {THREAD: self._about()}
        for source in sources:
            checkpoints = list(source.found())
            # By its runs `delete_for_runs` finds the chats that have their checkpoints.
            saved: dict[str, Saved | None] = {f"{RUN}{run}": {} for run in sorted(source.runs)}
            saved |= {f"{CHECKPOINT}{found.id}": copied_record(found) for found in reversed(checkpoints)}
            if root is None:
                root = source.chat.fork(self.name.chat, agent=FRAMEWORK)
                root.saved_states.save(FRAMEWORK, beginning | saved)
            else:
                made = derived_id(self.name.chat, self._store._system.new_id("-"))
                source.chat.fork(made, agent=FRAMEWORK).saved_states.save(FRAMEWORK, saved)
                root.saved_states.save(FRAMEWORK, beginning | {f"{BRANCH}{made}": {}})
            beginning = {}
