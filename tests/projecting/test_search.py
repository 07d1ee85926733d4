"""Full-text search: the same items on every kind of store, whatever is asked."""

from __future__ import annotations

import asyncio
import math
import threading
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

import refold
from refold.domain.canonical import canonical_json
from refold.domain.chat.events import MessageAdded
from refold.domain.content import Content
from refold.domain.log.envelope import NO_META, RecordedEvent
from refold.domain.log.ports import NewEvents
from refold.domain.memory.events import MemoryRemembered
from refold.domain.pool.events import PoolAdded, PoolOpened, PoolReplaced, QueueAppended, QueueOpened
from refold.domain.pool.items import ContextItem
from refold.domain.positions import BEGINNING
from refold.domain.spans import Ref
from refold.domain.totals import Totals
from refold.domain.trajectory.events import MessageRecorded
from refold.domain.window.events import WindowAdded, WindowOpened
from refold.domain.words import WORDS_BYTES_MAX, parse_query, words_of
from refold.infrastructure.log.postgres.wire import TRIP_BYTES_MAX, TRIP_CALLS_MAX, Call, trips
from refold.infrastructure.projecting.folding import fold_page
from refold.infrastructure.projecting.runner import ProjectionRunner
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.projections import contract
from refold.projections.contract import RANKED_CHARACTERS, SearchedRow, SearchQuery
from refold.projections.json_texts import texts_of_run_event
from refold.projections.search import SEARCH, Search, SearchHit, searchable_text_of

from .telling import ALL, FINDS, TEXTS, found, told


def test_a_hit(store: refold.Store) -> None:
    """Where the item came into the world, and the text around the words."""
    chat = told(store, "Where is my order?", "Nowhere.")
    message = chat.add_message("user", "long " * 100 + "And order 8?" + " long" * 100)

    last, first = sorted(store.search("order"), key=lambda hit: -hit.version)

    assert first == SearchHit(
        kind="chat",
        context="a",
        version=2,
        item=chat.items[0].id,
        snippet="Where is my order?",
        rank=first.rank,
    )
    assert (last.version, last.item) == (4, message.id)
    assert last.snippet.startswith("…")
    assert last.snippet.endswith("…")
    assert "And order 8?" in last.snippet
    assert min(first.rank, last.rank) > 0


def test_all_that_items_say(store: refold.Store) -> None:
    """Texts, names, arguments, outputs, reasons and instructions; of JSON what it means, not how it is written."""
    chat = told(store, "asked")
    chat.add_function_call(
        "look_up", '{"città": "K\\u00f6ln", "code": "import os\\nimport sys", "n": 1.50}', call_id="c1"
    )
    chat.add_function_output("look_up", "C:\\temp\\new is gone", call_id="c1")
    chat.add_message("assistant", ["part one", refold.ImageContent(image="data:image/png;base64,abcd"), "part two"])
    chat.add_handoff("billing", reason="refund")
    chat.add_config_update("Be brief.", tools=["calculator"])

    places = {query: [hit.version for hit in store.search(query)] for query in (
        "asked", "look_up", "koln citta", '"import sys"', "nimport", '"1.50"', "temp new", '"part two"', "abcd",
        "billing refund", "brief calculator", "user",
    )}  # fmt: skip

    assert {query: sorted(versions) for query, versions in places.items()} == {
        "asked": [2], "look_up": [3, 4], "koln citta": [3], '"import sys"': [3], "nimport": [], '"1.50"': [3],
        "temp new": [4], '"part two"': [5], "abcd": [], "billing refund": [6], "brief calculator": [7], "user": [],
    }  # fmt: skip


def test_items_within_edits(store: refold.Store) -> None:
    """What an edit brought is found where the edit is; what it took out of the view is found as before."""
    chat = told(store, "one apple", "two pears")
    chat.add_message("system", "Speak of fruit.", replace=True)
    chat.evict([chat.items[-1].id], reason="too sweet")
    chat.clear()

    assert [hit.version for hit in store.search("fruit")] == [4]
    assert found(store, "apple") == {"one apple"}
    assert found(store, "pears") == {"two pears"}


def test_other_kinds(store: refold.Store) -> None:
    """Ids, keys, descriptions, sources, tags, and content of whatever kind; what was replaced is found where it was."""
    plum = QueueAppended(content=Content(text="a plum"), description="sour fruit")
    jam = PoolAdded(id="jam", content=Content(json=b'{"made":"of\\nplum"}', type="kitchen:Jar"))
    seen = WindowAdded(key="shelf", value="plums", source="kitchen", quarters=8, change=Totals())
    liked = MemoryRemembered(
        key="fruit", value=Content(json=b'["plum"]'), tags=("taste",), first_at=1, at=1, change=Totals()
    )
    jelly = PoolReplaced(id="jam", content=Content(text="jelly"), old=Ref(2), change=Totals())
    recorded = {"queue": (QueueOpened(), plum), "pool": (PoolOpened(), jam, jelly)}
    for kind, events in {**recorded, "window": (WindowOpened(max_tokens=9), seen), "memory": (liked,)}.items():
        new = NewEvents(stream=f"{kind}:a", expected_version=0, root="a", events=events, metas=(NO_META,) * len(events))
        store.log.append([new]).result()
    told(store, "plum")

    def places(query: str, **options: Any) -> set[tuple[str, int, str]]:
        return {(hit.kind, hit.version, hit.item) for hit in store.search(query, **options)}

    assert places('"sour fruit" plum') == {("queue", 2, "")}
    assert places("jam") == {("pool", 2, "jam"), ("pool", 3, "jam")}
    assert places("jam", context="a", kind="queue") == set()
    assert {kind for kind, _, _ in places("plum", context="a")} == {"chat", "queue", "pool", "memory"}
    assert places("kitchen") == places("shelf plum*") == {("window", 2, "shelf")}
    assert places("fruit taste plum") == {("memory", 1, "fruit")}


def test_where_to_look(store: refold.Store) -> None:
    """In one context, in a kind of context; `limit` leaves the best."""
    odd = "o'b \"q\\ ä%"
    told(store, "plum", context=odd)
    told(store, "plum plum", context="b")

    assert [hit.context for hit in store.search("plum", context=odd)] == [odd]
    assert {hit.context for hit in store.search("plum", kind="chat")} == {odd, "b"}
    assert len(store.search("plum", limit=1)) == 1


def test_a_fork_has_the_past_of_its_parent(store: refold.Store) -> None:
    """As far as it goes back; each hit says where it was recorded."""
    parent = told(store, "plum one")
    child = parent.fork()
    child.add_message("user", "plum two")
    told(store, "plum three")
    grandchild = child.fork()
    grandchild.add_message("user", "plum four")

    places = [(hit.context, hit.version) for hit in store.search("plum", context=grandchild.id)]

    assert sorted(places) == sorted([("a", 2), (child.id, 2), (grandchild.id, 2)])


def test_what_a_merge_brought_in(store: refold.Store) -> None:
    """It is found in the context, where it was recorded; what the merge left out is not, nor what came later."""
    chat = told(store, "plum one")
    child = chat.fork("child")
    asyncio.run(child.merge(told(store, "plum of a merge before", context="other")))
    child.add_message("user", "plum two")
    asyncio.run(chat.merge(child))
    child.add_message("user", "plum three")
    brief = chat.fork("brief")
    brief.add_message("user", "plum left out")
    brief.add_message("assistant", "plum of the result")
    chat.add_message("user", "plum between two merges")
    asyncio.run(chat.merge_result(brief, agent_id="helper"))
    again = told(store, "plum five", context="again")
    asyncio.run(again.merge(chat))

    def texts(context: str) -> set[str]:
        return {hit.snippet for hit in store.search("plum", context=context)}

    brought = {"plum one", "plum of a merge before", "plum two", "plum of the result", "plum between two merges"}
    assert texts("a") == brought
    assert texts("again") == brought | {"plum five"}
    assert {hit.context for hit in store.search("plum", context="a")} == {"a", "other", "child", "brief"}


def test_what_a_merge_brought_into_a_queue_or_a_pool(store: refold.Store) -> None:
    """As in a chat."""
    item = ContextItem("a plum", "fruit", "one")
    queue, pool = store.queue("left"), store.pool("left")
    branched_queue, branched_pool = queue.branch(context_id="left-branch"), pool.branch(context_id="left-branch")
    asyncio.run(branched_queue.append(item))
    asyncio.run(branched_pool.add(item))
    asyncio.run(queue.merge(branched_queue))
    asyncio.run(pool.merge(branched_pool))

    assert {hit.context for hit in store.search("plum", context="left", kind="queue")} == {"left-branch"}
    assert {hit.context for hit in store.search("plum", context="left", kind="pool")} == {"left-branch"}


def test_a_phrase_that_few_have(store: refold.Store) -> None:
    """Its words are in many newer items, in another order; it is found behind all of them."""
    told(store, "a red plum " + "and more " * 50, "the redder plumes", *["a plum red"] * 100)

    assert [hit.version for hit in store.search('"red plum"')] == [2]
    assert [hit.version for hit in store.search('"the redd"')] == []
    assert [hit.version for hit in store.search('"redder plum"*')] == [3]


def test_equal_ones_come_newest_first(store: refold.Store) -> None:
    """Whatever the store takes for the best, the same text fits as well."""
    told(store, *["the same"] * 5)

    assert [hit.version for hit in store.search("same", limit=4)] == [6, 5, 4, 3]


def test_a_word_that_is_everywhere(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many of the newest items that have it are ranked, the same in every store, and no others are looked at."""
    monkeypatch.setattr(contract, "CANDIDATES_MAX", 4)
    told(store, "plum " * 9, *[f"a plum {number}" + " and more" * (number % 3) for number in range(6)], "plum plum")

    assert [hit.version for hit in store.search("plum", limit=3)] == [9, 6, 7]
    assert [hit.version for hit in store.search("plum", limit=8)] == [2, 9, 6, 3, 7, 4, 8, 5]
    assert [hit.version for hit in store.search("a pl* 0")] == [3]


def test_ranks_are_alike_everywhere(store: refold.Store) -> None:
    """More often and among fewer words is better; a word behind the characters that are ranked still counts as one."""
    told(store, "plum", "plum and plum", "plum with many other words", "word " * RANKED_CHARACTERS + "plum")

    ranks = {hit.version: hit.rank for hit in store.search("plum")}

    words = {2: 1, 3: 3, 4: 5, 5: RANKED_CHARACTERS // 5 + 1}
    assert ranks == {version: (1 + (version == 3)) / (1 + math.log2(1 + count)) for version, count in words.items()}


def test_large_texts(store: refold.Store) -> None:
    """The last word and phrase of as many different words as are searched, and of more than goes in one trip."""
    different = " ".join(f"w{number:06}" for number in range(WORDS_BYTES_MAX // 7 - 3))
    told(store, f"{different} the very end", "again " * 800_000 + "the last end")

    assert [hit.version for hit in store.search("w123456")] == [2]
    assert [hit.snippet[-12:] for hit in store.search('"the very end"')] == ["the very end"]
    assert [hit.snippet[-12:] for hit in store.search('"last end"')] == ["the last end"]
    assert store.search('"end very"') == []


def test_another_process_is_writing(ready_pg_url: str) -> None:
    """A server is searched meanwhile: neither tables nor index are waited for."""
    with refold.open(ready_pg_url) as store:
        told(store, "plum")
        store.search("plum")
    with psycopg.connect(ready_pg_url) as writer, refold.open(ready_pg_url) as store:
        writer.execute("UPDATE view_search_2 SET kind = kind")

        assert found(store, "plum") == {"plum"}


def test_trips_to_a_server() -> None:
    """They carry so many rows and bytes; a row with more bytes goes by itself."""
    sizes = [10] * (TRIP_CALLS_MAX + 1) + [TRIP_BYTES_MAX // 2] * 3 + [TRIP_BYTES_MAX + 1, 10]
    made = list(trips(Call("", (bytes(size),)) for size in sizes))

    assert [call.size for trip in made for call in trip] == sizes
    assert [len(trip) for trip in made] == [TRIP_CALLS_MAX, 2, 2, 1, 1]


def test_rows_equal_the_fold(store: refold.Store) -> None:
    """Brought up to date now and then, the rows are byte for byte what one fold of the log gives."""
    runner = ProjectionRunner(store.log, store._runner._store, [SEARCH])
    for number in range(3):
        told(store, *TEXTS, context=f"c{number % 2}")
        runner.catch_up(SEARCH)
    events = store.log.read_all(after=BEGINNING, limit=ALL).events
    folded = fold_page(SEARCH, events, MemoryProjectionStore())

    assert msgspec.msgpack.encode(runner.rows(SEARCH)) == msgspec.msgpack.encode(
        [row for _, row in sorted(folded.items())]
    )


class Renewed(Search):
    """The same rows, made anew."""

    version = SEARCH.version + 1


def test_made_anew_it_finds_the_same(store: refold.Store) -> None:
    """The index too is dropped and rebuilt with the rows."""
    told(store, *TEXTS)
    queries = [SearchQuery(parse_query(query), ALL) for query in FINDS]
    before = [store._runner.search(SEARCH, query) for query in queries]
    renewed = ProjectionRunner(store.log, store._runner._store, [Renewed()])

    assert [renewed.search(Renewed(), query) for query in queries] == before
    assert renewed.rows(Renewed()) == [row for (row,) in zip(store._runner.rows(SEARCH), strict=True)]


class Newest:
    """The last thing that was said in each context: rows that are replaced."""

    name, version, row = "newest", 1, SearchedRow

    def keys(self, event: RecordedEvent) -> list[str]:
        """Return the event's stream."""
        return [event.stream]

    def evolve(self, key: str, row: SearchedRow | None, event: RecordedEvent) -> SearchedRow:
        """Return the row of the stream, with what was said now in place of what was said before."""
        passage = searchable_text_of(event.event)
        return SearchedRow(
            key=key,
            kind="chat",
            stream=event.stream,
            version=event.version,
            recorded_at=event.recorded_at,
            words=words_of(passage.text if passage else "opened"),
        )


def test_replaced_rows(store: refold.Store) -> None:
    """They are found under their new text, and no longer under the old one."""
    runner = ProjectionRunner(store.log, store._runner._store, [Newest()])
    seen = []
    for text in ("red plum", "red pear", "blue pear"):
        told(store, text)
        told(store, "always red", context="b")
        queries = [SearchQuery(parse_query(query), ALL) for query in ("red", "pl*", '"red pear"', "pear", "opened")]
        seen.append([sorted(one.row.stream for one in runner.search(Newest(), query)) for query in queries])

    both, a, b = ["chat:a", "chat:b"], ["chat:a"], ["chat:b"]
    assert seen == [[both, a, [], [], []], [both, [], a, a, []], [b, [], [], a, []]]


def test_two_runners_at_once(store: refold.Store) -> None:
    """Each item is found once, whoever comes first."""
    told(store, *["plum"] * 300)
    runners = [ProjectionRunner(store.log, store._runner._store, [SEARCH]) for _ in range(2)]
    threads = [threading.Thread(target=runner.catch_up, args=(SEARCH,)) for runner in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [hit.version for hit in store.search("plum", limit=ALL)] == list(range(301, 1, -1))


def test_only_a_search_makes_the_index(store: refold.Store) -> None:
    """Listing contexts costs no more than it did."""
    told(store, "plum")
    store.contexts()
    rows = store._runner._store
    before = rows.checkpoint(SEARCH)
    store.search("plum")

    assert (before, rows.checkpoint(SEARCH)) == (BEGINNING, store.now())


def test_in_an_event_loop(store: refold.Store) -> None:
    """The async side finds the same."""
    told(store, "plum")

    assert asyncio.run(refold.to_async(store).search("plum", limit=3)) == store.search("plum")


def test_a_file_that_may_only_be_read(tmp_path: Path) -> None:
    """It is searched without an index; the one that it has is not needed, and survives being shortened."""
    path = tmp_path / "store.db"
    for _ in range(2):
        with refold.open(path) as store:
            told(store, *TEXTS)
            stored = store.search("brown", limit=ALL)
    size = path.stat().st_size

    with refold.open(path, read_only=True) as store:
        hits = store.search("brown", limit=ALL)

    assert hits == stored
    assert [hit.version for hit in hits] == [15, 14, 3, 2, 16, 4]
    assert path.stat().st_size == size


def test_a_row_says_where_it_is_from(store: refold.Store) -> None:
    """Words, and no text: that is in the log."""
    chat = told(store, "Größe: 5!")
    store.search("x")

    assert store._runner._store.rows(SEARCH) == [
        SearchedRow(
            key="chat:a@2",
            kind="chat",
            stream="chat:a",
            version=2,
            recorded_at=chat.history()[-1].recorded_at,
            words="grosse 5",
        )
    ]


def test_a_message_written_piece_by_piece(store: refold.Store) -> None:
    """It is found by words of every piece and across pieces, while it grows and later, with the text around them."""
    chat = store.chat("a")
    with chat.stream() as out:
        for piece in ("The parcel ", "left Köln on ", "Monday."):
            out.write(piece)
            out.flush()
            store.search("parcel")
        [growing] = store.search('"parcel left"')
    chat.add_message("user", "Which Monday?")

    [hit] = store.search('"on monday"')
    assert (growing.version, hit.version, hit.item) == (2, 2, out.message_id)
    assert (growing.snippet, hit.snippet) == ("The parcel left Köln on Monday.",) * 2


def test_a_message_of_many_pieces(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pieces are read some at a time, and no further than to the last of them."""
    monkeypatch.setattr("refold.infrastructure.queries.origins.PIECES_READ", 1)
    chat = store.chat("a")
    with chat.stream() as out:
        for piece in ("The parcel ", "left Köln on ", "Monday."):
            out.write(piece)
            out.flush()
    read, versions = store.log.read_events, list[int]()

    def reading(stream: str, *, after: int = 0, until: int | None = None) -> list[Any]:
        versions.append(after + 1)
        return read(stream, after=after, until=until)

    chat.add_message("user", "Which Monday?")
    monkeypatch.setattr(store.log, "read_events", reading)
    [hit] = store.search("köln")

    assert hit.snippet == "The parcel left Köln on Monday."
    assert versions == list(range(2, chat.version))


def test_a_message_of_a_run_has_its_id() -> None:
    """By it a search says which message it found; one without an id has none."""
    record = {"id": "m1", "content": ["Hello.", {"type": "image"}, {"type": "text", "text": "Look."}]}
    recorded = MessageRecorded(record=canonical_json(record, what="it"))

    assert texts_of_run_event(recorded) == ("m1", ("Hello.", "Look."))
    assert texts_of_run_event(MessageRecorded(record=b'{"content":"x"}')) == ("", ("x",))


class Message(SearchedRow, frozen=True, kw_only=True):
    """A searched row with fields of its own, whose names the index has, too."""

    id: str
    sz: int
    phrase: str = ""


class Messages:
    """Finds messages."""

    name, version, row = "messages", 1, Message

    def keys(self, event: RecordedEvent) -> list[str]:
        """Return the reference of a message."""
        return [event.reference] if isinstance(event.event, MessageAdded) else []

    def evolve(self, key: str, row: Message | None, event: RecordedEvent) -> Message:
        """Return its row."""
        return Message(
            key=key,
            kind="chat",
            stream=event.stream,
            version=event.version,
            recorded_at=event.recorded_at,
            words=words_of(event.event.content[0]),
            id=event.event.id,
            sz=len(event.event.content[0]),
        )


def test_searched_rows_of_ones_own(store: refold.Store) -> None:
    """Their fields may have any names."""
    store.add_projection(Messages())
    store.chat("a").add_message("user", "so it goes on")

    hits = store._runner.search(Messages(), SearchQuery(parse_query('"it goes"'), limit=9))
    assert [one.row.sz for one in hits] == [13]
    assert store.verify().problems == ()
