"""The checkpointer of LangGraph over a store: each thread is a chat, with its messages as items."""

from __future__ import annotations

import hashlib
import heapq
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from ....domain.arguments import require_whole
from ....domain.canonical import ID_BYTES_MAX
from ....domain.concurrency.locks import fork_safe_lock, synchronized
from ....domain.concurrency.threads import in_thread
from ....domain.context.journal import retried
from ....domain.erasure.forgetting import watch
from ....domain.errors import InvalidInputError
from ....domain.ids import derived_id, encoded_id, split_stream_id
from ....projections.saved_states import SavedStateRow
from ...store import Store
from ..open_chats import acting_as, awaited, require_store
from .branch import BRANCH, FRAMEWORK, RUN, THREAD, SavedCheckpoint
from .channels import SOURCE
from .checkpoint import BEGUN_BY_OTHERS, Loaded, Put, Write
from .thread import Name, Thread
from .values import ThreadId, Values

THREADS_KEPT_MAX = 256
# A config with such keys comes from a run of a graph.
OF_A_RUN = "__pregel_"
# This key is set for an inner graph if the outer one runs again from an older checkpoint; the inner one does so, too.
REPLAYED = "__pregel_replay_state"


class RefoldSaver(BaseCheckpointSaver[int]):
    """
    Keeps the threads of graphs in a store: `graph = builder.compile(checkpointer=RefoldSaver(store))`.

    The chat of the thread "t" is `store.chat("t")`, with the messages of the graph; `prefix` comes before the ids of
    all chats. A graph that goes on from an older checkpoint forks the chat. A run that another one has overtaken is
    refused with a CheckpointSupersededError. LangGraph no longer finds what is deleted; the log keeps it.

    A node may change a message in place, so a save compares all messages with those that were saved. With
    `compare_last` it compares so many at the end, and takes earlier ones for unchanged where they are the same objects
    as before: in a long thread that is many times as quick, but does not notice that an old message was changed in
    place.
    """

    def __init__(
        self,
        store: Store,
        *,
        prefix: str = "",
        serde: SerializerProtocol | None = None,
        compare_last: int | None = None,
        actor: str = FRAMEWORK,
    ) -> None:
        """
        Keep threads in `store`; `actor` is recorded where nobody else is named as the actor.

        Raises:
            InvalidInputError: the serializer encrypts, or `compare_last` is no whole number of at least 0.
        """
        super().__init__(serde=serde)
        if isinstance(serde, EncryptedSerializer):
            raise InvalidInputError(
                "an EncryptedSerializer would not encrypt the messages, which are items of a chat: open the store with "
                "keys, as refold.open(..., keys=refold.KeyFile(...)), which encrypts everything"
            )
        self.store = require_store(store)
        self._compare_last = None if compare_last is None else require_whole(compare_last, "compare_last")
        self._prefix, self._actor = prefix, actor
        self._threads: OrderedDict[tuple[str, str], Thread] = OrderedDict()
        self._lock = fork_safe_lock()
        watch(store.log, self)

    @synchronized
    def _forget_erased(self) -> None:
        # They have copies of messages and states; a call that uses one of them goes on with it, and drops it then.
        self._threads.clear()

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """
        Return the checkpoint that a config names, or the newest one of its thread; None if there is none.

        Raises:
            InvalidInputError: the config has no thread_id, or a type in a value may not be loaded.
        """
        thread = self._thread(config)
        wanted = get_checkpoint_id(config)
        if not wanted or wanted == BEGUN_BY_OTHERS:
            present = thread.present(self._values())
            return self._tuple_of(thread, *present) if present else None
        found = thread.find(wanted)
        return self._tuple(thread, found, may_fork=wanted) if found else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of a thread with all its namespaces, or of all threads, the newest first."""
        given, values = 0, self._values()
        end = get_checkpoint_id(before) if before else None
        wanted = get_checkpoint_id(config) if config else None
        lines = [zip(repeat(thread), thread.checkpoints(), strict=False) for thread in self._listed(config)]
        for thread, found in heapq.merge(*lines, key=lambda one: one[1].id, reverse=True):
            if limit is not None and given >= limit:
                return
            if (end and found.id >= end) or (wanted and found.id != wanted):
                continue
            metadata = thread.metadata(found, values)
            if all(metadata.get(name) == value for name, value in (filter or {}).items()):
                given += 1
                yield self._tuple(thread, found, may_fork=found.id)

    def threads(self) -> Sequence[str]:
        """Return the ids of all threads, sorted."""
        return sorted({thread.name.thread for thread in self._all_threads()})

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """
        Return the writes to channels on the way to a checkpoint, and the value before them.

        Deleted checkpoints count: what is left must not change with them.
        """
        thread = self._thread(config)
        wanted = get_checkpoint_id(config)
        found = thread.find(wanted, with_hidden=True) if wanted else thread.newest()
        history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        missing = set(channels)
        for loaded in thread.ancestors(found, self._values()) if found and channels else ():
            for write in reversed(loaded.writes):
                if write[1] in missing:
                    history[write[1]]["writes"].append(write)
            saved = loaded.checkpoint["channel_values"]
            for channel in missing & saved.keys():
                history[channel]["seed"] = saved[channel]
            missing -= saved.keys()
            if not missing:
                break
        for entry in history.values():
            entry["writes"].reverse()
        return history

    # Saving

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """
        Save a checkpoint after the one that the config names, all or nothing.

        Raises:
            CheckpointSupersededError: another run has saved a checkpoint after that one.
            InvalidInputError: the config has no thread_id, or a value cannot be saved.
        """
        thread = self._thread(config)
        plain: dict[str, Any] = {**checkpoint}
        channels = plain.pop("channel_values", {})
        about: dict[str, Any] = {**get_checkpoint_metadata(config, metadata)}
        parent = config["configurable"].get("checkpoint_id")
        given, seen = config["configurable"]["thread_id"], ""
        if isinstance(given, ThreadId):
            seen = given.seen
        elif not parent or _is_of_a_run(config):
            # A run that found no checkpoint was given nothing.
            seen = f"chat:{thread.name.chat}@0"
        may_fork, is_counted = _may_fork(config, about), partial(self._is_counted, thread)
        put = Put(plain, channels, about, {**new_versions}, parent, may_fork, seen, is_counted)
        with acting_as(self._actor):
            thread.put(put, self._values())
        return _config(thread, checkpoint["id"], seen=seen)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """
        Save writes of a task on the checkpoint that the config names; a repeated call saves nothing.

        Raises:
            InvalidInputError: the config has no thread_id, or a value cannot be saved.
        """
        values = self._values()
        packed = [
            Write(task_id, task_path, WRITES_IDX_MAP.get(channel, index), channel, values.pack(value, f"{channel!r}"))
            for index, (channel, value) in enumerate(writes)
        ]
        with acting_as(self._actor):
            self._thread(config).put_writes(config["configurable"]["checkpoint_id"], task_id, task_path, packed)

    def delete_thread(self, thread_id: str) -> None:
        """
        Delete a thread with all its namespaces, all or nothing; the log keeps it, and `store.chat(id).at(version)`
        shows it.
        """
        self._at_once(partial(self._namespaces, thread_id), Thread.delete)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs, all of a thread or none; their run_id is in the metadata."""
        runs, values = set(run_ids), self._values()
        rows, names = self.store.saved_states(FRAMEWORK), {f"{RUN}{run}" for run in run_ids}
        chats = {row.context for row in rows if row.name in names}
        branches = {f"{BRANCH}{split_stream_id(chat)[1]}" for chat in chats}
        # The first chat of a thread names its branches, so other threads need not be read.
        roots = chats | {row.context for row in rows if row.name in branches}

        def hide(thread: Thread) -> None:
            thread.hide([one for one in thread.checkpoints() if thread.metadata(one, values).get("run_id") in runs])

        for thread in self._threads_begun(row for row in rows if row.name == THREAD and row.context in roots):
            self._at_once(partial(list, [thread]), hide)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """
        Copy a thread with all its checkpoints, all or nothing; messages and values are named, not copied.

        Raises:
            DecisionRefusedError: the target has checkpoints.
        """

        def copy(source: Thread) -> None:
            source.copy_to(Thread(self.store, self._name(target_thread_id, source.name.namespace)))

        self._at_once(partial(self._namespaces, source_thread_id), copy)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """
        Delete the checkpoints of threads, with `keep_latest` all but the newest of each namespace.

        Raises:
            InvalidInputError: there is no such strategy.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInputError(f"strategy is {strategy!r}: give 'keep_latest' or 'delete'")
        for thread_id in thread_ids:
            change = Thread.delete if strategy == "delete" else Thread.keep_newest
            self._at_once(partial(self._namespaces, thread_id), change)

    def get_next_version(self, current: int | str | None, channel: None) -> Any:
        """Return the next version of a channel: a number, or a text where other savers began with texts."""
        if isinstance(current, str):
            return f"{int(current.split('.')[0]) + 1:032}.{0:016}"
        return (current or 0) + 1

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> RefoldSaver:
        """Return a saver of the same threads that may load further types."""
        saver: RefoldSaver = super().with_allowlist(extra_allowlist)
        return saver

    # The same for a running event loop

    aget_tuple = awaited(get_tuple)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list` for a running event loop."""
        listed = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await in_thread(next, listed, None)) is not None:
            yield one

    aput = awaited(put)
    aput_writes = awaited(put_writes)
    adelete_thread = awaited(delete_thread)
    adelete_for_runs = awaited(delete_for_runs)
    acopy_thread = awaited(copy_thread)
    aprune = awaited(prune)
    aget_delta_channel_history = awaited(get_delta_channel_history)

    # Threads

    def _at_once(self, find: Callable[[], Iterable[Thread]], change: Callable[[Thread], object]) -> None:
        """
        Change the threads that `find` returns in one transaction, as often as others come first.

        They are objects that nobody else uses. So no other call has to wait for the end of the transaction; it sees the
        change as one of another process.
        """
        own: dict[Name, Thread] = {}

        def attempt() -> None:
            # They are found before the transaction, and read as a whole only once: during a longer transaction, others
            # record something more often.
            for thread in find():
                own[thread.name] = own.get(thread.name) or Thread(self.store, thread.name)
            with acting_as(self._actor), self.store.transaction():
                for thread in own.values():
                    change(thread)

        retried(attempt)

    def _values(self) -> Values:
        return Values(self.serde, self._compare_last)

    def _tuple(self, thread: Thread, found: SavedCheckpoint, *, may_fork: str) -> CheckpointTuple:
        return self._tuple_of(thread, thread.load(found, self._values()), may_fork=may_fork)

    def _tuple_of(self, thread: Thread, loaded: Loaded, seen: str = "", *, may_fork: str = "") -> CheckpointTuple:
        checkpoint: Any = loaded.checkpoint
        metadata: Any = loaded.metadata
        return CheckpointTuple(
            config=_config(thread, loaded.id, may_fork=may_fork, seen=seen),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=_config(thread, loaded.parent, may_fork=loaded.parent) if loaded.parent else None,
            pending_writes=loaded.writes,
        )

    def _thread(self, config: RunnableConfig) -> Thread:
        configurable = config.get("configurable", {})
        if "thread_id" not in configurable:
            raise InvalidInputError("the config has no thread_id: give {'configurable': {'thread_id': ...}}")
        return self._thread_named(str(configurable["thread_id"]), configurable.get("checkpoint_ns") or "")

    @synchronized
    def _is_counted(self, thread: Thread, message_id: str) -> bool:
        """Return whether a message is in another namespace of the thread, whose graph has counted its usage."""
        others = (one for (name, _), one in self._threads.items() if name == thread.name.thread and one is not thread)
        return any(one.holds(message_id) for one in others)

    @synchronized
    def _thread_named(self, thread_id: str, namespace: str) -> Thread:
        thread = self._threads.get((thread_id, namespace))
        if thread is None:
            thread = Thread(self.store, self._name(thread_id, namespace))
            self._threads[thread_id, namespace] = thread
            while len(self._threads) > THREADS_KEPT_MAX:
                self._threads.popitem(last=False)
        self._threads.move_to_end((thread_id, namespace))
        return thread

    def _name(self, thread_id: str, namespace: str) -> Name:
        # A namespace follows behind a slash, so a slash in the id of the thread is encoded.
        root = encoded_id(self._prefix + thread_id, f"the thread {thread_id!r}").replace("/", "%2F")
        if not namespace:
            return Name(thread_id, "", root, root)
        # Graphs in graphs have long names.
        digest = hashlib.blake2b(namespace.encode(), digest_size=16).hexdigest()
        with suppress(InvalidInputError):
            chat = f"{root}/{encoded_id(namespace, 'the namespace')}"
            if len(chat.encode()) <= ID_BYTES_MAX:
                return Name(thread_id, namespace, chat, root)
        return Name(thread_id, namespace, derived_id(root, f"/{digest}"), root)

    def _listed(self, config: RunnableConfig | None) -> Iterator[Thread]:
        if config is None:
            yield from self._all_threads()
        elif config["configurable"].get("checkpoint_ns") is not None:
            yield self._thread(config)
        else:
            yield from self._namespaces(str(config["configurable"]["thread_id"]))

    def _namespaces(self, thread_id: str) -> Iterator[Thread]:
        """Yield a thread's namespaces, the one without a name first."""
        root = self._thread_named(thread_id, "")
        yield root
        for row in self.store.rows("catalogue", under=f"chat:{root.name.chat}/"):
            chat: Any = row
            if chat.source == SOURCE:
                continue
            about = Thread(self.store, Name(thread_id, "", chat.id, root.name.chat)).about()
            if about:
                yield self._thread_named(thread_id, about["namespace"])

    def _all_threads(self) -> Iterator[Thread]:
        yield from self._threads_begun(self.store.saved_states(FRAMEWORK, prefix=THREAD))

    def _threads_begun(self, rows: Iterable[SavedStateRow]) -> Iterator[Thread]:
        """Yield the threads that begin with what these rows name."""
        for row in rows:
            saved = self.store.chat(row.context.partition(":")[2], create=False).saved_states.at(row.version)
            about = (saved.value if saved else None) or {}
            if about and self._name(about["thread"], about["namespace"]).chat == row.context.partition(":")[2]:
                yield self._thread_named(about["thread"], about["namespace"])


def _config(thread: Thread, checkpoint: str, *, may_fork: str = "", seen: str = "") -> RunnableConfig:
    thread_id = ThreadId(thread.name.thread)
    thread_id.may_fork, thread_id.seen = may_fork, seen
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": thread.name.namespace,
            "checkpoint_id": checkpoint,
        }
    }


def _may_fork(config: RunnableConfig, metadata: Mapping[str, Any]) -> bool:
    """
    Return whether a checkpoint may begin a branch: its caller named the parent, and did not only load the newest one.
    """
    configurable = config["configurable"]
    parent = configurable.get("checkpoint_id")
    if metadata.get("source") == "fork" or (configurable.get(REPLAYED) and not parent):
        return True
    thread_id = configurable["thread_id"]
    if isinstance(thread_id, ThreadId):
        return bool(parent) and thread_id.may_fork == parent
    return not _is_of_a_run(config)


def _is_of_a_run(config: RunnableConfig) -> bool:
    return any(name.startswith(OF_A_RUN) for name in config["configurable"])
