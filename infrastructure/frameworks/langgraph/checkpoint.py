"""
A checkpoint as it is saved and read.

Its record has the checkpoint without the values, and names for each channel the version that saved the value, so that
each value is stored once. A version of another chat is `stream@version`. The channel with the messages is not saved:
its value is what the chat shows. Further channels with messages are what chats of their own show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import empty_checkpoint, writes_sort_key

from ....domain.canonical import parse_json
from ....domain.chat.view import ChatView
from ...store import Store
from ..conversation import IsCounted, Message
from .branch import CHECKPOINT, FRAMEWORK, RUN, VALUE, WRITES, Branch, Saved, SavedCheckpoint, ShownMessages, holds
from .channels import ChannelChats, messages_in, view_at
from .messages import CONVERSATION, Copies, is_messages, messages_of, plain_of, require_shown
from .values import Values

# The channel that is looked at first for messages.
MESSAGES = "messages"
GONE = "the graph took it out of its messages"
# The id of a checkpoint that was never saved: it stands for a chat that others began.
BEGUN_BY_OTHERS = "00000000-0000-0000-0000-000000000000"

Ref = int | str


class Put(NamedTuple):
    """
    A checkpoint to save. Unless it `may_fork`, its parent must be the newest one.

    `seen` is the chat and its version, `stream@version`, that the run was given; empty if that is not known. The usage
    of a message that `is_counted` is in another chat of the thread, as that of a graph within this one.
    """

    checkpoint: dict[str, Any]
    channels: dict[str, Any]
    metadata: dict[str, Any]
    new_versions: dict[str, Any]
    parent: str | None
    may_fork: bool
    seen: str = ""
    is_counted: IsCounted | None = None

    @property
    def id(self) -> str:
        """The id of the checkpoint."""
        return str(self.checkpoint["id"])


class Write(NamedTuple):
    """A write of a task to a channel; its value is packed. A number below 0 is that of a special channel."""

    task: str
    path: str
    number: int
    channel: str
    value: Saved


class Loaded(NamedTuple):
    """A checkpoint as LangGraph has it; each write is (task, channel, value)."""

    id: str
    parent: str | None
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    writes: list[tuple[str, str, Any]]


class Recording:
    """A checkpoint that is being saved at the end of a branch."""

    def __init__(
        self, branch: Branch, parent: SavedCheckpoint | None, put: Put, values: Values, channels: ChannelChats
    ) -> None:
        self._branch, self._put, self._values, self._channels = branch, put, values, channels
        self._lists: dict[str, Any] = {}
        self._parent = parent.record if parent else {}
        self._is_inherited = parent is not None and parent.branch is not branch
        self._stream = parent.branch.chat.stream_id if parent else ""
        self._messages: dict[str, Any] | None = None
        # The messages that become items: those that came at the end, or all of them if the view was edited.
        self._new: list[BaseMessage] = []
        self._plain: list[Message] = []
        self._is_edit = False
        self._held: ShownMessages | None = None
        self._before = branch.chat.version
        self._saved: dict[str, Saved | None] = {}
        self._last = 0

    def show_messages(self) -> None:
        """Record the messages of the checkpoint as items of the chat, as far as it does not show them already."""
        channel = self._channel_of_messages()
        if channel is None:
            return
        if self._are_shown(channel):
            self._messages = self._parent["messages"]
            return
        if channel not in self._put.channels:
            self._messages = {**self._parent["messages"], "count": self._count_shown()}
            return
        messages: list[BaseMessage] = self._put.channels[channel]
        self._messages = {"channel": channel, "count": len(messages)}
        held = self._held = self._held_in(channel)
        self._is_edit = held is None or not held.copies.begin(messages, self._values)
        self._new = messages if held is None or self._is_edit else messages[len(held.copies) :]
        self._plain = [plain_of(one, self._values) for one in self._new]
        if self._is_edit:
            shown = [*self._plain, *self._unseen(messages)]
            CONVERSATION.show(self._branch.chat, shown, reason=GONE, is_counted=self._put.is_counted)
            self._messages["count"] = self._count_shown()
        else:
            CONVERSATION.add(self._branch.chat, self._plain, is_counted=self._put.is_counted)

    def _count_shown(self) -> int:
        return len(CONVERSATION.kept(self._branch.chat.recorded_items()))

    def _unseen(self, messages: Sequence[BaseMessage]) -> list[Message]:
        """Return the messages that others added since the run began; they stay, behind the messages of the run."""
        stream, _, seen = self._put.seen.rpartition("@")
        if stream != self._branch.chat.stream_id:
            return []
        items, known = self._branch.chat.recorded_items(), {message.id for message in messages}

        def is_new(item_id: str) -> bool:
            ordinal = items.ordinal(item_id)
            ref = None if ordinal is None else items.ref(ordinal)
            return ref is not None and not ref.stream and ref.version > int(seen)

        others = [one for one in CONVERSATION.kept(items) if not one.is_own and one.message["id"] not in known]
        return [one.message for one in others if is_new(one.item_ids[0])]

    def _are_shown(self, channel: str) -> bool:
        """Return whether the chat shows the messages, since the graph did not change them after the parent."""
        held, earlier = self._branch.held, self._parent.get("messages") or {}
        is_held = held is not None and (held.channel, len(held.copies)) == (channel, earlier.get("count"))
        return is_held and earlier["channel"] == channel and "view" not in earlier and self._is_unchanged(channel)

    def _held_in(self, channel: str) -> ShownMessages | None:
        """Return the messages of a channel that the chat shows; None if they were not compared yet."""
        held, chat = self._branch.held, self._branch.chat
        if held and held.channel == channel:
            return held
        return None if len(chat) else ShownMessages(channel, Copies(), since=chat.version)

    def save(self, early: Sequence[Ref]) -> None:
        """Save the record, and the values of the channels that changed."""
        put, chat = self._put, self._branch.chat
        refs = self._save_values()
        record: Saved = {
            "checkpoint": self._values.pack(put.checkpoint, f"the checkpoint {put.id}", is_ordered=False),
            "metadata": self._values.pack(put.metadata, f"the metadata of {put.id}", is_ordered=False),
            "values": refs,
        }
        optional = {"parent": put.parent, "messages": self._messages, "early": list(early), "lists": self._lists}
        record |= {name: value for name, value in optional.items() if value}
        run = put.metadata.get("run_id")
        if isinstance(run, str) and run and run not in self._branch.runs:
            self._saved[f"{RUN}{run}"] = {}
        self._saved[f"{CHECKPOINT}{put.id}"] = record
        self._last = chat.saved_states.save(FRAMEWORK, self._saved)

    def settle(self) -> None:
        """Note in the branch what was recorded."""
        self._channels.settle()
        branch, last = self._branch, self._last
        first = last - len(self._saved) + 1
        if first - 1 > self._before:
            branch.touched = first - 1
        branch.note_saved(self._saved, last)
        if self._is_edit and self._messages:
            is_whole = self._messages["count"] == len(self._new)
            self._held = branch.held = (
                ShownMessages(self._messages["channel"], Copies(), since=last) if is_whole else None
            )
        if self._held:
            self._held.copies.add(self._new, self._plain)
            branch.held = self._held

    def _channel_of_messages(self) -> str | None:
        """Return the channel whose value the chat shows: the parent's, else `messages`, else the first with some."""
        channels = self._put.channels
        earlier = (self._parent.get("messages") or {}).get("channel")
        if earlier is not None:
            if earlier not in channels:
                return earlier if self._is_unchanged(earlier) else None
            # A graph may put anything in the place of messages.
            if self._are_shown(earlier) or is_messages(channels[earlier]):
                return str(earlier)
        names = [MESSAGES, *channels] if MESSAGES in channels else channels
        return next((name for name in names if channels[name] and is_messages(channels[name])), None)

    def _save_values(self) -> dict[str, Ref]:
        put, refs = self._put, {}
        base = self._branch.chat.version
        shown = self._messages and self._messages["channel"]
        for channel in {**put.checkpoint["channel_versions"], **put.channels}:
            if channel == shown or self._show_list(channel):
                continue
            ref = self._parent.get("values", {}).get(channel)
            if ref is not None and self._is_unchanged(channel):
                refs[channel] = f"{self._stream}@{ref}" if self._is_inherited and isinstance(ref, int) else ref
            elif channel in put.channels:
                packed = self._values.pack(put.channels[channel], f"the channel {channel!r}")
                self._saved[f"{VALUE}{channel}"] = packed
                refs[channel] = base + len(self._saved)
        return refs

    def _show_list(self, channel: str) -> bool:
        """Show a channel of messages in a chat for it alone; return whether the channel holds messages."""
        value = self._put.channels.get(channel)
        earlier = self._parent.get("lists", {}).get(channel)
        if earlier and self._is_unchanged(channel):
            self._lists[channel] = earlier
        elif (messages := messages_in(value)) is not None and (messages or earlier):
            self._lists[channel] = self._channels.show(channel, value, self._values, self._is_counted)
        return channel in self._lists

    def _is_counted(self, message_id: str) -> bool:
        return holds(self._branch.chat, message_id) or bool(self._put.is_counted and self._put.is_counted(message_id))

    def _is_unchanged(self, channel: str) -> bool:
        """Return whether a channel has the value that it had at the parent."""
        versions = self._put.checkpoint["channel_versions"]
        earlier = (self._parent.get("checkpoint", {}).get("json") or {}).get("channel_versions", {})
        return (
            channel not in self._put.new_versions and channel in earlier and earlier[channel] == versions.get(channel)
        )


class Reader:
    """Reads checkpoints; what others saved is looked up in a store."""

    def __init__(self, store: Store, values: Values, channels: ChannelChats) -> None:
        self._store, self._values, self._channels = store, values, channels

    def load(self, found: SavedCheckpoint, *, as_shown: bool = False) -> Loaded:
        """
        Return a checkpoint with the values of its channels and its writes.

        With `as_shown` its messages are those that the chat shows now, also what others added since.
        """
        record, what = found.record, f"the checkpoint {found.id}"
        saved = {channel: self._saved(found.branch, ref) for channel, ref in record["values"].items()}
        # Nothing is left of an erased value: the channel is as before its first one, and the thread can go on.
        channels = {name: self._values.unpack(one, f"the channel {name!r}") for name, one in saved.items() if one}
        for channel, named in record.get("lists", {}).items():
            channels[channel] = self._channels.value(named, self._values)
        if "messages" in record and as_shown and found.branch.touched > found.version:
            channels[record["messages"]["channel"]] = self._shown_messages(found.branch, record["messages"]["channel"])
        elif "messages" in record:
            channels[record["messages"]["channel"]] = self._messages(found, record["messages"])
        checkpoint = self._values.unpack(record["checkpoint"], what) | {"channel_values": channels}
        writes = [
            (one.task, one.channel, self._values.unpack(one.value, f"a write to {one.channel!r}"))
            for one in self.writes(found)
        ]
        return Loaded(found.id, record.get("parent"), checkpoint, self.metadata(found), writes)

    def begun(self, branch: Branch) -> Loaded | None:
        """Return a checkpoint of the messages that others recorded in a chat; None if the chat shows none."""
        messages = self._shown_messages(branch, MESSAGES)
        if not messages:
            return None
        checkpoint: dict[str, Any] = {**empty_checkpoint(), "id": BEGUN_BY_OTHERS}
        checkpoint |= {"channel_values": {MESSAGES: messages}, "channel_versions": {MESSAGES: 1}}
        # LangGraph gives a thread without a checkpoint this number, too.
        return Loaded(BEGUN_BY_OTHERS, None, checkpoint, {"source": "update", "step": -2, "parents": {}}, [])

    def metadata(self, found: SavedCheckpoint) -> dict[str, Any]:
        """Return the metadata of a checkpoint."""
        metadata: dict[str, Any] = self._values.unpack(found.record["metadata"], f"the metadata of {found.id}")
        return metadata

    def writes(self, found: SavedCheckpoint) -> list[Write]:
        """Return the writes on a checkpoint, in the order in which a run applies them."""
        refs: list[Ref] = [*found.record.get("early", ())]
        refs += [version for version, _ in found.branch.writes.get(found.id, ())]
        writes: dict[tuple[str, int], Write] = {}
        for ref in dict.fromkeys(refs):
            for write in writes_in(self._saved(found.branch, ref)):
                if write.number < 0 or (write.task, write.number) not in writes:
                    writes[write.task, write.number] = write
        return sorted(writes.values(), key=lambda one: writes_sort_key(one.path, one.task, one.number))

    def _saved(self, branch: Branch, ref: Ref) -> Saved:
        if isinstance(ref, int):
            return branch.value(ref)
        stream, _, number = ref.rpartition("@")
        version = int(number)
        found = self._store.log.read(stream, after=version - 1, until=version)
        return (parse_json(found[0].event.value) if found else None) or {}

    def _messages(self, found: SavedCheckpoint, about: dict[str, Any]) -> list[BaseMessage]:
        branch, count = found.branch, about["count"]
        held = branch.held
        if "view" not in about and held and held.channel == about["channel"] and found.version >= held.since:
            return held.copies.messages(count, self._values)
        view = self._view(found, about)
        items = list(view.recorded_items())
        messages, own = messages_of(items, self._values)
        require_shown(f"the chat of the checkpoint {found.id}", items, len(messages), count)
        if view is branch.chat:
            # Where nothing ever left the view, and nobody else added to it, older checkpoints have the first of these.
            is_grown = view.recorded_items().edits is None and own == count
            # Checkpoints from before an erasure count messages that are gone, so they cannot use what is left.
            since = (0 if is_grown else found.version) if len(messages) == count else branch.chat.version + 1
            branch.held = ShownMessages(about["channel"], Copies(items, len(messages)), since)
            return branch.held.copies.handed_out(messages, self._values)
        return messages

    def _shown_messages(self, branch: Branch, channel: str) -> list[BaseMessage]:
        """Return the messages that a chat shows now."""
        held = branch.held
        if held and held.channel == channel:
            return held.copies.messages(len(held.copies), self._values)
        items = list(branch.chat.recorded_items())
        messages, _ = messages_of(items, self._values)
        branch.held = ShownMessages(channel, Copies(items, len(messages)), since=branch.chat.version)
        return branch.held.copies.handed_out(messages, self._values)

    def _view(self, found: SavedCheckpoint, about: dict[str, Any]) -> ChatView[Any]:
        if "view" in about:
            return view_at(self._store, about["view"])
        branch = found.branch
        return branch.chat if branch.touched <= found.version else branch.past(found.version)


def writes_in(saved: Saved) -> list[Write]:
    """Return the writes that one event saved."""
    return [Write(saved["task"], saved["path"], *write) for write in saved.get("writes", ())]


def new_writes(
    branch: Branch, checkpoint: str, task: str, path: str, writes: Sequence[Write]
) -> dict[str, Saved | None]:
    """Return what saves those writes of a task that a checkpoint does not have; special ones are saved again."""
    known = {
        write.number
        for version, of_task in branch.writes.get(checkpoint, ())
        if of_task == task
        for write in writes_in(branch.value(version))
    }
    new = [[one.number, one.channel, one.value] for one in writes if one.number < 0 or one.number not in known]
    return {f"{WRITES}{checkpoint}/{task}": {"task": task, "path": path, "writes": new}} if new else {}


def copied_record(found: SavedCheckpoint) -> Saved:
    """Return the record of a checkpoint for another chat: everything that it names is named with its stream."""
    record, stream = dict(found.record), found.branch.chat.stream_id

    def whole(ref: Ref) -> Ref:
        return f"{stream}@{ref}" if isinstance(ref, int) else ref

    record["values"] = {channel: whole(ref) for channel, ref in record["values"].items()}
    early = [*record.get("early", ()), *(version for version, _ in found.branch.writes.get(found.id, ()))]
    record["early"] = list(dict.fromkeys(map(whole, early)))
    if "messages" in record:
        record["messages"] = {"view": f"{stream}@{found.version}", **record["messages"]}
    return record
