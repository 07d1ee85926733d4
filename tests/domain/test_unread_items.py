"""The items of a chat that was opened from a snapshot: each is read when it is used, whatever way the list is read."""

import copy
import gc
import heapq
import itertools
import json
import operator
import pickle
import random
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

import refold
from refold.chat import ChatMessage, ChatRole, FunctionCall
from refold.domain.chat import item_list
from refold.domain.chat.item_list import UNREAD, SeenItems, UnreadCall, UnreadList
from refold.domain.chat.items import ChatItem
from refold.domain.chat.state.fold import ChatState
from refold.domain.chat.state.packed import PACKING as CHAT_PACKING
from refold.domain.chat.state.packed import _Source
from refold.domain.chat.state.unread_items import ItemNames
from refold.domain.context import folded_stream
from refold.domain.context.snapshot import Snapshot
from refold.domain.errors import DamagedError, DecisionRefusedError, StorageClosedError
from refold.domain.frozen import FrozenList

from ..contract.writing import at_once
from .chat_events import said

ITEMS = 300
GONE = ("m7", "m150")
TypeAdapterOfItems: TypeAdapter[list[ChatItem]] = TypeAdapter(list[ChatItem])


class Opened:
    """A chat that was opened from a snapshot, the items that it has to show, and how many events were read for them."""

    def __init__(self, location: Path | str, whole: list[ChatItem]) -> None:
        self.store = refold.open(location)
        self.chat = self.store.chat("c", create=False)
        self.whole = whole
        self.read: list[Sequence[int]] = []
        self.is_damaged = False

    @property
    def count(self) -> int:
        """How many items were read."""
        return sum(map(len, self.read))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[ChatItem]]:
    """A store with a chat and its snapshot, and the items of the chat."""
    location = str(tmp_path_factory.mktemp("kept") / "store.db")
    with pytest.MonkeyPatch.context() as patch, refold.open(location) as store:
        patch.setattr(folded_stream, "SNAPSHOT_EVENTS", 200)
        chat = store.chat("c")
        chat.record_items(
            [said(f"m{number}", (f"text {number}",), created_at=float(number)) for number in range(ITEMS)]
        )
        chat.add_function_call("look", "{}", call_id="c1")
        chat.add_function_output("look", "seen", call_id="c1")
        for gone in GONE:
            chat.evict(gone)
        _ = store.chat("c")._journal.state
        whole = list(chat.items)
    return location, whole


@pytest.fixture
def opened(kept: tuple[str, list[ChatItem]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """The chat, opened from its snapshot in a copy of the store."""
    monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 200)
    monkeypatch.setattr(item_list, "MADE_AT_ONCE", 100)
    # All that pytest collected is frozen: Python would count it, object by object, for each of these tests.
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1)
    made = Opened(shutil.copy(kept[0], tmp_path / "store.db"), kept[1])
    whole = _Source.read

    def noted(source: _Source, ordinals: Sequence[int]) -> list[Any]:
        if made.is_damaged:
            raise DamagedError("event chat:c@4", "it does not match its digest")
        made.read.append(ordinals)
        return whole(source, ordinals)

    monkeypatch.setattr(_Source, "read", noted)
    yield made
    made.store.close()


def dumped(item: Any) -> Any:
    return item.model_dump(mode="json")


def grown(way: Callable[[list[Any], Any], Any]) -> Callable[[Any], Any]:
    """Return a way that changes a list of its own."""

    def result(items: Any) -> Any:
        mine: list[Any] = [1, 2]
        way(mine, items)
        return mine

    return result


def added(mine: list[Any], items: Any) -> None:
    alias = mine
    mine += items
    assert alias is mine


def put(mine: list[Any], items: Any) -> None:
    mine[1:1] = items


def starred(*items: Any) -> Any:
    return items


def matched(items: Any) -> Any:
    match items:
        case [first, *_, last]:
            return [first, last]
    return None


def unpacked(items: Any) -> Any:
    first, *middle, last = items
    return [first, middle, last]


def identity(item: Any) -> Any:
    return item.id


# All but the last of each pair: the ways in which Python, and C, read a list.
THROUGH_METHODS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "star": lambda items: [*items],
    "tuple": tuple,
    "sorted": lambda items: sorted(items, key=identity),
    "reversed": lambda items: list(reversed(items)),
    "iter": lambda items: list(iter(items)),
    "comprehension": lambda items: [item for item in items],  # noqa: C416
    "enumerate": lambda items: list(enumerate(items)),
    "zip": lambda items: list(zip(items, items, strict=True)),
    "chain": lambda items: list(itertools.chain(items)),
    "islice": lambda items: list(itertools.islice(items, 3, 9)),
    "pairs": lambda items: list(itertools.pairwise(items)),
    "deque": lambda items: list(deque(items)),
    "all of it": lambda items: items[:],
    "a slice": lambda items: items[5:250:7],
    "backwards": lambda items: items[::-1],
    "last": lambda items: items[-1],
    "first": lambda items: items[0],
    "itemgetter": operator.itemgetter(0, -1, 200),
    "getitem": lambda items: operator.getitem(items, 200),
    "plus": lambda items: items + [1],  # noqa: RUF005
    "times": lambda items: items * 2,
    "times, the other way": lambda items: 2 * items,
    "its copy": lambda items: items.copy(),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
    "pickled": lambda items: pickle.loads(pickle.dumps(items)),
    "pickled in Python": lambda items: pickle.loads(pickle._dumps(items)),  # type: ignore[attr-defined]
    "extend": grown(lambda mine, items: mine.extend(items)),
    "in place": grown(added),
    "a slice of another": grown(put),
    "match": matched,
    "unpacked": unpacked,
    "arguments": lambda items: starred(*items),
    "smallest": lambda items: heapq.nsmallest(3, items, key=identity),
    "greatest": lambda items: max(items, key=identity),
    "chosen": lambda items: random.Random(1).choice(items),
    "sampled": lambda items: random.Random(1).sample(items, 5),
}  # fmt: skip
IN_C: dict[str, Callable[[Any], Any]] = {
    "behind another": lambda items: [1] + items,  # noqa: RUF005
    "the method of list": lambda items: list.copy(items),
    "the iterator of list": lambda items: list(list.__iter__(items)),
    "an item of list": lambda items: list.__getitem__(items, 4),
    "pydantic": lambda items: TypeAdapterOfItems.validate_python(items),
}
VALUES: dict[str, Callable[[Any], Any]] = {
    "length": len,
    "truth": bool,
    "repr": repr,
    "str": str,
    "format": lambda items: f"{items}",
    "is a list": lambda items: isinstance(items, list),
    "json": lambda items: json.dumps(items, default=dumped),
    "indented json": lambda items: json.dumps(items, default=dumped, indent=1),
    "nested json": lambda items: json.dumps({"items": [items]}, default=dumped),
    "msgspec": lambda items: msgspec.json.encode(items, enc_hook=dumped),
    "msgpack": lambda items: msgspec.msgpack.encode(items, enc_hook=dumped),
    "builtins": lambda items: msgspec.to_builtins(items, enc_hook=dumped),
    "pydantic's dump": lambda items: TypeAdapterOfItems.dump_python(items),
    "pydantic's json": lambda items: TypeAdapterOfItems.dump_json(items),
    "joined": lambda items: ",".join(map(identity, items)),
    "the seed's form": lambda items: refold.ChatContext(items).to_dict(),
}


@pytest.mark.parametrize("way", THROUGH_METHODS.values(), ids=THROUGH_METHODS)
def test_each_way_through_a_method_gives_read_items(opened: Opened, way: Callable[[Any], Any]) -> None:
    """The same as of a plain list, of the same types to the last one."""
    found, wanted = way(opened.chat.items), way(opened.whole)

    assert kinds(found) == kinds(wanted)
    assert found == wanted


def kinds(found: Any) -> Any:
    """Return the types of what was found, at every depth; a list that shows items counts as a list."""
    if isinstance(found, list | tuple):
        return [kinds(one) for one in list.__iter__(found)] if isinstance(found, list) else list(map(kinds, found))
    return type(found)


@pytest.mark.parametrize("way", IN_C.values(), ids=IN_C)
def test_code_in_c_gets_the_items(opened: Opened, way: Callable[[Any], Any]) -> None:
    """It reads the memory of the list; an item there is read at its first use."""
    found = way(opened.chat.items)

    assert found == way(opened.whole)
    assert kinds(found) == kinds(way(opened.whole))


@pytest.mark.parametrize("way", VALUES.values(), ids=VALUES)
def test_each_value_is_that_of_a_plain_list(opened: Opened, way: Callable[[Any], Any]) -> None:
    """Whatever is made of the list."""
    assert way(opened.chat.items) == way(FrozenList(opened.whole))


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.ge])
def test_it_is_compared_as_a_list(opened: Opened, compare: Callable[[Any, Any], Any]) -> None:
    """On both sides, and with other values."""
    others: list[Any] = [opened.whole, opened.whole[1:], [], None, tuple(opened.whole)]
    for other in others:
        opened.chat._forget_shown()
        items = opened.chat.items
        for pair in ((items, other), (other, items)):
            plain = tuple(FrozenList(opened.whole) if one is items else one for one in pair)
            assert answer(compare, *pair) == answer(compare, *plain)


def answer(compare: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    try:
        return compare(one, other)
    except TypeError as error:
        return str(error).replace("UnreadList", "FrozenList").replace("SeenItems", "FrozenList")


def test_items_are_found(opened: Opened) -> None:
    """By value."""
    items, other = opened.chat.items, opened.whole[9]
    assert other in items
    assert (items.index(other), items.count(other)) == (9, 1)
    with pytest.raises(ValueError, match="not in list"):
        opened.chat.items.index(ChatMessage(role=ChatRole.USER, content="elsewhere"))


def test_calls_are_found_by_their_id(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those with another id that has the same hash."""
    items = opened.chat._journal.state.items
    monkeypatch.setattr(ItemNames, "with_call_id", lambda names, *_: names._calls)

    assert [items.item_table.with_call_id(name, items.reach) for name in ("c1", "c2")] == [[ITEMS, ITEMS + 1], []]


def test_nothing_is_read_before_it_is_used(opened: Opened) -> None:
    """The list itself reads nothing; an item reads some neighbours, and a loop reads as far as it goes."""
    items = opened.chat.items
    assert (len(items), bool(items), isinstance(items, list), opened.count) == (ITEMS, True, True, 0)

    assert items[-1] == opened.whole[-1]
    assert items[3].id == "m3"
    assert opened.count <= 2 * 64
    assert opened.chat.items is items
    before = opened.count
    assert next(iter(items)).id == "m0"
    assert opened.count - before <= 64
    assert list(items) == opened.whole
    assert opened.count <= ITEMS + len(GONE)
    # From then on it is a list as any other.
    assert type(items) is SeenItems


def test_a_list_of_unread_items_cannot_be_changed(opened: Opened) -> None:
    """As any list of items."""
    items: Any = opened.chat.items
    for change in (items.clear, items.pop, items.sort, lambda: items.append(1), lambda: operator.setitem(items, 0, 1)):
        with pytest.raises(DecisionRefusedError):
            change()
    with pytest.raises(TypeError):
        hash(items)
    with pytest.raises(Exception, match="frozen"):
        list.__getitem__(items, 3).id = "other"


USES: dict[str, Callable[[Any], Any]] = {
    "a field": lambda item: item.call_id,
    "its class": lambda item: item.__class__,
    "an instance": lambda item: isinstance(item, FunctionCall),
    "of another": lambda item: isinstance(item, ChatMessage),
    "its dict": vars,
    "hash": hash,
    "repr": repr,
    "str": str,
    "dir": dir,
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda item: pickle.loads(pickle.dumps(item)),
    "dump": lambda item: item.model_dump(),
    "fields": lambda item: dict(item),
    "fields that were set": lambda item: item.model_fields_set,
    "a changed copy": lambda item: item.model_copy(update={"name": "other"}),
    "version": lambda item: item.version,
    "extra": lambda item: item.model_extra,
    "validated": lambda item: FunctionCall.model_validate(item),
    "json": lambda item: FunctionCall.__pydantic_serializer__.to_json(item),
    "attribute": lambda item: getattr(item, "nothing", "nothing"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_each_use_of_an_unread_item_reads_it(opened: Opened, use: Callable[[Any], Any]) -> None:
    """As code in C may hand it out; it is the item from then on."""
    item: Any = list.__getitem__(opened.chat.items, -2)
    assert type(item) is UnreadCall

    assert use(item) == use(opened.whole[-2])
    assert item == opened.whole[-2]
    assert opened.whole[-2] == item
    assert type(item) is FunctionCall


def test_an_edit_reads_the_item_and_its_partner(opened: Opened) -> None:
    """However many other calls have its call id, and wherever they lie."""
    for number in range(40):
        call_id = "again" if number % 4 == 0 else f"c{number}"
        opened.chat.add_function_call("look", "{}", call_id=call_id)
        opened.chat.add_function_output("look", f"seen {number}", call_id=call_id)
        opened.chat.add_message("user", f"between {number}")
    whole = opened.chat.items
    last = [item.id for item in whole if getattr(item, "call_id", "") == "again"]
    CHAT_PACKING.keep(opened.store.log, "chat:c", opened.chat._journal.state, opened.store.log.end("chat:c"))

    again = opened.store.chat("c", create=False)
    again._journal.state  # noqa: B018 - opened from the snapshot
    before = opened.count
    again.evict(last[-1])
    # The item itself with its neighbours, and a few of the twenty with the call id that come before it.
    assert opened.count - before <= 64 + 10
    assert {item.id for item in whole} - {item.id for item in again.items} == set(last[-2:])


def test_items_stay_the_same_objects(opened: Opened) -> None:
    """Behind appends and edits: those that were read, and those that are read later."""
    chat = opened.chat
    first = chat.items
    third, fourth = first[3], list.__getitem__(first, 4)
    chat.add_message("user", "behind")
    second = chat.items
    assert (second[3] is third, second[4] is fourth, second[-1].id) == (True, True, chat.tail(1)[0].id)
    chat.evict(second[-1].id)
    chat.evict("m5")
    chat.restore("m5")
    assert chat.items[3] is third
    assert chat.items == opened.whole
    assert first == opened.whole


def test_events_behind_the_snapshot_are_in_the_list(opened: Opened) -> None:
    """Also edits of items that nobody has read."""
    opened.chat.add_message("user", "behind")
    opened.chat.evict("m3")
    opened.chat.restore("m7")
    before = opened.count

    again = opened.store.chat("c", create=False)
    assert isinstance(again.items, UnreadList)
    # The snapshot says what they count.
    assert (opened.count, again.estimated_tokens()) == (before, opened.chat.estimated_tokens())
    assert [item.id for item in again.items] == [item.id for item in opened.chat.items]
    assert [item.id for item in again.items][:7] == ["m0", "m1", "m2", "m4", "m5", "m6", "m7"]


def test_a_snapshot_is_packed_by_who_stores_it(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader does not wait for it; one that cannot be packed holds up no other; what was added since is not in it."""
    packed = list[str]()
    whole = CHAT_PACKING._pack

    def noted(state: ChatState) -> bytes | None:
        packed.append(threading.current_thread().name)
        if state.version == 1:
            raise RuntimeError("no room")
        return whole(state)

    monkeypatch.setattr(CHAT_PACKING, "_pack", noted)
    log, state = opened.store.log, opened.chat._journal.state
    location, bad = next(iter(opened.store.log.files())), opened.store.chat("bad")
    CHAT_PACKING.keep(log, "chat:bad", bad._journal.state, log.end("chat:bad"))
    CHAT_PACKING.keep(log, "chat:c", state, log.end("chat:c"))
    opened.chat.add_message("user", "since")
    opened.store.close()

    assert set(packed) == {"refold-housekeeping"}
    with refold.open(location) as again:
        assert again.log.snapshot("chat:bad") is None
        found = Snapshot.unpacked("chat:c", again.log.snapshot("chat:c"))
        assert found is not None
        assert (found.version, found.body) == (state.version, whole(state))


def test_a_list_in_use_is_read_before_its_store_is_closed(opened: Opened) -> None:
    """Nobody reads what only the context has; of that, an item says that the store is closed."""
    unused = opened.store.chat("c", create=False)
    assert unused.items[0].id == "m0"
    opened.store.close()
    assert opened.count <= 64

    reopened = refold.open(opened.store._opened_at)
    items = reopened.chat("c", create=False).items
    reopened.close()
    assert items == opened.whole
    with pytest.raises(StorageClosedError):
        _ = unused.items[-1].id


async def test_a_list_is_read_before_an_event_loop_gets_it(opened: Opened) -> None:
    """Nothing is left that would wait for a disk."""
    items = await refold.to_async(opened.chat).items
    assert type(items) is SeenItems
    assert not set(UNREAD) & set(map(type, list.__iter__(items)))


def test_threads_read_the_same_items(opened: Opened) -> None:
    """Each sees every item whole, whoever reads it."""
    items, steps = opened.chat.items, (1, 2, 1, 3, 1)
    seen: list[Any] = []
    read = [lambda step=step: seen.append([items[place].id for place in range(0, ITEMS, step)]) for step in steps]
    assert at_once(*read) == []
    whole = [item.id for item in opened.whole]
    assert sorted(map(len, seen)) == sorted(len(whole[::step]) for step in steps)
    assert all(found in (whole, whole[::2], whole[::3]) for found in seen)
    assert items == opened.whole


@pytest.mark.parametrize("step", ["fields_of", "_put_fields", "_put_names", "_put_source", "_put_ordinal"])
def test_an_item_is_read_again_after_an_interrupt(opened: Opened, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Before every step of reading it."""
    item = list.__getitem__(opened.chat.items, 3)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(item_list, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            _ = item.id

    assert item == opened.whole[3]
    assert type(item) is ChatMessage
    assert item.model_fields_set == opened.whole[3].model_fields_set


def test_damage_is_reported_where_an_item_is_read(opened: Opened) -> None:
    """The list goes on to show the others, and the item when it can be read."""
    items = opened.chat.items
    assert items[200].id == opened.whole[200].id
    opened.is_damaged = True
    for use in (lambda: items[3], lambda: list(items), lambda: list.__getitem__(items, 3).id):
        with pytest.raises(DamagedError, match="chat:c@4"):
            use()
    assert items[200] == opened.whole[200]
    opened.is_damaged = False
    assert items == opened.whole


def test_a_list_that_nobody_opened_from_a_snapshot_is_whole(tmp_path: Path) -> None:
    """Its items are in memory."""
    with refold.open(str(tmp_path / "store.db")) as store:
        chat = store.chat("c")
        chat.add_message("user", "here")
        assert type(chat.items) is not UnreadList
        assert type(store.chat("c").items) is SeenItems
