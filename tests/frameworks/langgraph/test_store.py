"""The long-term memory of LangGraph: the same answers as from its own store in memory, and a past."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import refold
from refold.domain.context.journal import CATCH_UPS_MAX
from refold.domain.errors import ConcurrencyError, InvalidInputError, ReadOnlyError
from refold.domain.memory.records import MemoryRecord
from refold.infrastructure.frameworks.langgraph.store import Collection
from refold.infrastructure.store import Store
from refold.langgraph import RefoldStore

from .graphs import State, said

LABELS = ("a", "b", "x/y", "50%", "é")
NAMESPACES = st.lists(st.sampled_from(LABELS), min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k1", "k2", "/", ""]).filter(bool)
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["red", "blue"])
VALUES = st.fixed_dictionaries({"n": st.integers(-3, 3), "text": st.text("ab c", max_size=6)}) | st.dictionaries(
    st.sampled_from(["n", "color", "text"]), SCALARS | st.lists(SCALARS, max_size=2) | st.just({"deep": 1}), max_size=3
)
FILTERS = st.sampled_from(
    [None, {"n": 1}, {"n": {"$ne": 1}}, {"color": "red"}, {"text": {"$eq": "a"}}, {"color": {"deep": 1}}]
)
CHANGES = st.tuples(st.just("put"), NAMESPACES, KEYS, VALUES) | st.tuples(st.just("delete"), NAMESPACES, KEYS)
READS = (
    st.tuples(st.just("get"), NAMESPACES, KEYS)
    | st.tuples(st.just("search"), st.lists(st.sampled_from(LABELS), max_size=2).map(tuple), FILTERS)
    | st.tuples(st.just("list"), st.sampled_from([("a",), ("*", "b")]), st.sampled_from([None, 1, 2]))
    | st.tuples(st.just("ask"), st.sampled_from(["ab", "ccc", "b b"]))
)
DIMENSIONS = 4


def vector_of(text: str) -> list[float]:
    """Return how often letters are in a text; the last is never 0."""
    return [float(text.count(letter)) for letter in "abc"] + [1.0]


def embed(texts: Any) -> list[list[float]]:
    """Return vectors of texts."""
    return [vector_of(text) for text in texts]


INDEX: Any = {"dims": DIMENSIONS, "embed": embed, "fields": ["text"]}


def rows(items: Any) -> list[Any]:
    """Return what two stores must have in common, in any order."""
    return sorted(((item.namespace, item.key, item.value) for item in items), key=repr)


def answer(store: BaseStore, step: Any) -> Any:
    """Do one step, and return what came of it."""
    match step:
        case "put", namespace, key, value:
            store.put(namespace, key, value)
        case "delete", namespace, key:
            store.delete(namespace, key)
        case "get", namespace, key:
            found = store.get(namespace, key)
            return rows([found] if found else [])
        case "search", prefix, wanted:
            return rows(store.search(prefix, filter=wanted, limit=100))
        case "list", end, depth:
            if isinstance(store, InMemoryStore):
                # It lists namespaces that have nothing in them, once it was asked for an item there.
                for empty in [namespace for namespace, items in store._data.items() if not items]:
                    del store._data[empty]
            return store.list_namespaces(suffix=end, max_depth=depth, limit=100)
        case "ask", query:
            found = store.search((), query=query, limit=100)
            return sorted((round(item.score or 0, 5), item.namespace, item.key) for item in found)
    return None


@settings(max_examples=60, deadline=None)
@given(st.lists(CHANGES | READS, max_size=25))
def test_any_steps_have_the_same_answers(steps: list[Any]) -> None:
    """Also where each step is done by a new store, which knows nothing but the log."""
    theirs = InMemoryStore(index=INDEX)
    expected = [answer(theirs, step) for step in steps]

    with refold.open(":memory:") as store:
        ours = RefoldStore(store, index=INDEX)
        assert [answer(ours, step) for step in steps] == expected
    with refold.open(":memory:") as store:
        assert [answer(RefoldStore(store, index=INDEX), step) for step in steps] == expected
        assert store.verify(processes=1).problems == ()


def test_the_nearest_come_first_page_by_page(store: Store) -> None:
    """Whichever is the newest; without an index, and without a question, the newest do."""
    theirs, ours, plain = InMemoryStore(index=INDEX), RefoldStore(store, index=INDEX), RefoldStore(store)
    for key, text in (("near", "aaab"), ("middle", "aabb"), ("far", "abbb")):
        for one in (theirs, ours):
            one.put(("u",), key, {"text": text})

    pages = [
        [one.search(("u",), query="a", limit=1, offset=place)[0].key for place in range(3)] for one in (theirs, ours)
    ]

    assert pages == [["near", "middle", "far"]] * 2
    asked = (ours.search(("u",), limit=2), plain.search(("u",), limit=2), plain.search(("u",), query="a", limit=2))
    assert [[one.key for one in found] for found in asked] == [["far", "middle"]] * 3


def test_every_database_keeps_it(store: Store) -> None:
    """Several namespaces change in one transaction; the newest are found first."""
    ours = RefoldStore(store, index=INDEX)
    ours.batch([PutOp(("u", str(number)), "k", {"n": number, "text": "b" * number}) for number in range(5)])
    ours.put(("u", "0"), "k", {"n": 9, "text": "a"})

    fresh = RefoldStore(store, index=INDEX)
    assert fresh.search(("u",), limit=2)[0].value["n"] == 9
    assert fresh.search(("u",), query="a")[0].value["n"] == 9
    assert fresh.list_namespaces(max_depth=1) == [("u",)]
    item = fresh.get(("u", "0"), "k")
    assert item is not None
    assert item.created_at < item.updated_at
    assert {row.id for row in store.contexts() if row.kind == "memory"} >= {"langgraph/u/0"}
    assert store.verify(processes=1).problems == ()


def test_it_has_a_past(memory: Store) -> None:
    """Each change is an event: who changed what when; the memory as it was can be read, and not changed."""
    ours = RefoldStore(memory)
    ours.put(("u",), "color", {"is": "red"})
    before = memory.now()
    with refold.acting(actor="mia"):
        ours.put(("u",), "color", {"is": "blue"})
    ours.put(("u", "more"), "k", {})
    ours.delete(("u",), "color")

    changes = ours.history(("u",), "color")
    assert [(one.how, one.actor, one.new and one.new.value) for one in changes] == [
        ("remembered", "langgraph", {"is": "red"}),
        ("remembered", "mia", {"is": "blue"}),
        ("forgotten", "langgraph", None),
    ]
    past = ours.at(before)
    item = past.get(("u",), "color")
    assert item is not None
    assert item.value == {"is": "red"}
    assert past.search(("u",))[0].value == {"is": "red"}
    assert past.list_namespaces() == [("u",)]
    assert ours.at(datetime(2000, 1, 1, tzinfo=UTC)).search(()) == []
    with pytest.raises(ReadOnlyError):
        past.put(("u",), "color", {})
    assert ours.get(("u",), "color") is None
    assert ours.list_namespaces() == [("u", "more")]


def test_an_erased_item_is_not_there(memory: Store) -> None:
    """LangGraph's values are objects, and a text is left of it; what was beside it may be erased, too."""
    memories, other = RefoldStore(memory, index=INDEX, ttl={"default_ttl": 5}), ("users", "tom")
    for namespace in (("users", "mia"), other):
        memories.put(namespace, "k1", {"text": "ab"})
    for context in (
        "memory:langgraph/users/mia",
        "memory:langgraph/.beside/users/mia",
        "memory:langgraph/.beside/users/tom",
    ):
        memory.erase(context=context, why="asked for", dry_run=False)

    assert memories.get(("users", "mia"), "k1") is None
    assert [item.namespace for item in memories.search(("users",), query="ab")] == [other]
    assert memories.list_namespaces() == [other]
    assert memories.sweep_ttl() == 0
    memories.put(("users", "mia"), "k1", {"text": "new"})
    assert [item.value for item in memories.search(("users", "mia"), query="new")] == [{"text": "new"}]


def test_items_expire(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read puts it off; what expired is left out where that is asked for, and a sweep deletes it."""
    minute, now = 60_000_000, [0]
    monkeypatch.setattr(RefoldStore, "_now", lambda _: now[0])
    ours = RefoldStore(memory, ttl={"default_ttl": 10, "omit_expired": True})
    lax = RefoldStore(memory)
    ours.put(("u",), "short", {}, ttl=5)
    ours.put(("u",), "usual", {})
    ours.put(("u",), "always", {}, ttl=None)
    now[0] = 4 * minute
    assert ours.get(("u",), "short") is not None
    assert ours.get(("u",), "usual", refresh_ttl=False) is not None

    # Put off until minute 9, and not; an hour later all have expired that can.
    now[0] = 8 * minute
    assert {item.key for item in ours.search(("u",), refresh_ttl=False)} == {"short", "usual", "always"}
    now[0] = 9 * minute
    assert ours.get(("u",), "short") is None
    assert lax.get(("u",), "short", refresh_ttl=False) is not None
    now[0] = 60 * minute
    assert ours.list_namespaces() == [("u",)]
    assert ours.sweep_ttl() == 2
    assert ours.sweep_ttl() == 0
    assert [item.key for item in lax.search(("u",))] == ["always"]
    assert [one.how for one in ours.history(("u",), "short")] == ["remembered", "forgotten"]


def test_a_sweep_leaves_what_others_put(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that a program put or forgot in the memory itself, or put again during the sweep, has no time of before."""
    now = [0]
    monkeypatch.setattr(RefoldStore, "_now", lambda _: now[0])
    ours = RefoldStore(store)
    for key in ("over", "replaced", "forgotten", "renewed"):
        ours.put(("u",), key, {"n": 1}, ttl=5)
    scope = store.memory().scope("langgraph/u")
    scope.put(MemoryRecord(scope=scope.scope, key="replaced", value={"n": 2}))
    scope.forget("forgotten")
    expiring = Collection.expiring

    def renewed_meanwhile(one: Collection) -> Iterator[tuple[str, dict[str, Any]]]:
        yield from list(expiring(one))
        monkeypatch.setattr(Collection, "expiring", expiring)
        ours.put(("u",), "renewed", {"n": 3})

    monkeypatch.setattr(Collection, "expiring", renewed_meanwhile)
    now[0] = 60 * 60_000_000

    assert ours.sweep_ttl() == 1
    assert {item.key: item.value["n"] for item in ours.search(("u",))} == {"replaced": 2, "renewed": 3}
    version = store.now()
    assert (ours.sweep_ttl(), store.now()) == (0, version)


def test_a_read_puts_off_what_it_read(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that others put or delete meanwhile keeps its new time to live, or has none."""
    now = [0]
    monkeypatch.setattr(RefoldStore, "_now", lambda _: now[0])
    ours, theirs, changed = RefoldStore(memory), RefoldStore(memory), RefoldStore._change
    for key in ("longer", "deleted", "same"):
        ours.put(("u",), key, {}, ttl=5)
    now[0] = 4 * 60_000_000

    def change(self: RefoldStore, changes: Any) -> None:
        if self is ours:
            theirs.put(("u",), "longer", {}, ttl=60)
            theirs.delete(("u",), "deleted")
        changed(self, changes)

    monkeypatch.setattr(RefoldStore, "_change", change)
    assert len(ours.search(("u",))) == 3
    now[0] = 30 * 60_000_000

    assert theirs.sweep_ttl() == 1
    assert [item.key for item in theirs.search(("u",), refresh_ttl=False)] == ["longer"]
    assert [record.key for record in memory.memory().scope("langgraph/.beside/u").search()] == ["expires/longer"]


def test_a_read_seldom_writes(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time to live is put off when a tenth of it is over; items without one are never written by a read."""
    now = [0]
    monkeypatch.setattr(RefoldStore, "_now", lambda _: now[0])
    ours = RefoldStore(memory)
    ours.put(("u",), "plain", {})
    ours.put(("u",), "short", {}, ttl=1)
    count = sum(map(memory.log.head, memory.log.streams()))
    for second in range(60):
        now[0] = second * 1_000_000
        ours.search(("u",))

    assert sum(map(memory.log.head, memory.log.streams())) == count + 60 // 7
    ours.put(("u",), "plain", {"n": 1})
    assert sum(map(memory.log.head, memory.log.streams())) == count + 60 // 7 + 1


def test_a_search_looks_at_no_other_namespaces(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that begin with the labels are found by their names, however many others there are."""
    kept = RefoldStore(memory)
    for labels in (("users", "mia"), ("users", "mia", "a/b%"), ("users", "mia2"), ("a:b", "x"), ("ä", "mia")):
        kept.put(labels, "k", {"is": labels})
    read: list[str] = []
    streams = memory.log.streams

    def noted(prefix: str = "", **limit: Any) -> list[str]:
        found = streams(prefix, **limit)
        read.extend(found)
        return found

    monkeypatch.setattr(memory.log, "streams", noted)
    found = {prefix: [one.namespace for one in kept.search(prefix)] for prefix in (("users", "mia"), ("ä",), ("x",))}

    assert {prefix: sorted(names) for prefix, names in found.items()} == {
        ("users", "mia"): [("users", "mia"), ("users", "mia", "a/b%")],
        ("ä",): [("ä", "mia")],
        ("x",): [],
    }
    assert len(read) == 4
    read.clear()
    for prefix, names in ((("users", "mia"), 2), (("users", "*"), 3), (("*", "mia"), 3), (None, 5)):
        assert len(kept.list_namespaces(prefix=prefix)) == names
    assert len(read) == 3 + 3 + 5 + 5
    assert len(kept.search(())) == 5
    assert kept.search(("x" * 999,)) == kept.search(("\ud800",)) == []


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("langgraph", "x")])
def test_what_is_no_namespace_is_refused(memory: Store, namespace: tuple[str, ...]) -> None:
    """Nothing is recorded."""
    with pytest.raises(InvalidNamespaceError):
        RefoldStore(memory).put(namespace, "k", {})
    assert memory.log.streams() == []


@pytest.mark.parametrize("namespace", [("a.b",), ("",)])
def test_a_batch_with_what_is_no_namespace_is_refused(memory: Store, namespace: tuple[str, ...]) -> None:
    """Also in operations made by hand, and nothing of the batch is recorded."""
    ours = RefoldStore(memory)
    for bad in (PutOp(namespace, "k", {}), GetOp(namespace, "k"), SearchOp(namespace)):
        with pytest.raises(InvalidNamespaceError):
            ours.batch([PutOp(("u",), "good", {}), bad])
    assert memory.log.streams() == []


def test_what_cannot_be_stored_changes_nothing(memory: Store) -> None:
    """All changes of a batch are made, or none."""
    ours = RefoldStore(memory)
    odd: Any = Decimal("1.5")
    times = [PutOp(("u",), "k", {}, ttl=ttl) for ttl in (1e300, -1e300, float("nan"), odd)]
    others = [PutOp(("u",), "k", {"n": object()}), PutOp(("u",), "", {}), PutOp(("u" * 300,), "k", {})]
    for bad in (*times, *others, PutOp(("u",), "\ud800", {})):
        with pytest.raises(InvalidInputError):
            ours.batch([PutOp(("u",), "good", {}), bad])
    assert ours.search(()) == []
    with pytest.raises(InvalidInputError, match="ends with a slash"):
        RefoldStore(memory, prefix="mine")
    with pytest.raises(InvalidInputError, match="no operation"):
        ours.batch(["put"])  # type: ignore[list-item]


async def test_a_running_loop_and_its_threads(store: Store) -> None:
    """Texts are embedded by the loop, many puts come at once, and none is lost."""

    async def aembed(texts: Any) -> list[list[float]]:
        return embed(texts)

    index: Any = {**INDEX, "embed": aembed}
    ours = RefoldStore(store, index=index)
    await asyncio.gather(*(ours.aput(("u", str(n % 3)), f"k{n}", {"text": "a" * n, "n": n}) for n in range(12)))

    found = await ours.asearch(("u",), query="aaaa", limit=3)
    assert len(found) == 3
    assert found[0].score == pytest.approx(found[0].score or 0)
    assert len(await ours.asearch(("u",), limit=50)) == 12
    assert await ours.abatch([GetOp(("u", "0"), "k0"), SearchOp(("u",), filter={"n": {"$gte": 10}})]) != [None, []]
    other = RefoldStore(store, index=index)
    await asyncio.gather(*(one.aput(("shared",), "k", {"n": n}) for n, one in enumerate([ours, other] * 4)))
    assert len(ours.history(("shared",), "k")) == 8


def test_a_graph_remembers(memory: Store) -> None:
    """A node gets the store of its graph."""

    def note(state: State, store: BaseStore) -> dict[str, Any]:
        store.put(("users", "mia"), "last", {"text": state["messages"][-1].content})
        return {"notes": ["noted"]}

    builder = StateGraph(State)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    graph = builder.compile(store=RefoldStore(memory))
    graph.invoke(said("my color is red", "h1"))

    record = memory.memory().scope("langgraph/users/mia").get("last")
    assert record is not None
    assert record.value == {"text": "my color is red"}


def test_two_begin_one_namespace(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second looks again, and both values are there."""
    ours, theirs = RefoldStore(store), RefoldStore(store)
    others = [theirs]
    put = Collection.put

    def put_and_be_overtaken(self: Collection, *given: Any) -> None:
        put(self, *given)
        if others:
            # In a thread of its own, because this one is in a transaction.
            thread = threading.Thread(target=others.pop().put, args=(("u",), "theirs", {"n": 1}), kwargs={"ttl": 60})
            thread.start()
            thread.join()

    monkeypatch.setattr(Collection, "put", put_and_be_overtaken)
    ours.put(("u",), "ours", {"n": 2}, ttl=60)
    ours.put(("u",), "later", {"n": 3})

    for one in (ours, theirs, RefoldStore(store)):
        assert {found.key: found.value["n"] for found in one.search(("u",))} == {"theirs": 1, "ours": 2, "later": 3}


def test_others_that_never_pause(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is tried a few times, and then it is an error of the caller's; nothing is changed."""
    ours, tries = RefoldStore(memory), list[None]()
    ours.put(("u",), "k", {"n": 1})

    def overtaken(*_: object) -> None:
        tries.append(None)
        raise ConcurrencyError("memory:langgraph/u", expected=1, actual=2)

    with monkeypatch.context() as patched:
        patched.setattr(Collection, "put", overtaken)
        with pytest.raises(ConcurrencyError):
            ours.put(("u",), "k", {"n": 2})
    assert len(tries) == CATCH_UPS_MAX
    assert [item.value for item in ours.search(("u",))] == [{"n": 1}]


def test_a_namespace_may_be_a_list(store: Store) -> None:
    """As in what was read from JSON; it is the same namespace."""
    memories, listed = RefoldStore(store), ["users", "mia"]
    given: Any = listed
    memories.batch([PutOp(given, "color", {"is": "red"})])

    assert memories.batch([GetOp(given, "color"), GetOp(("users", "mia"), "color")])[0] is not None
    assert rows(memories.search(given)) == rows(memories.search(("users", "mia"))) != []
    assert rows(asyncio.run(memories.asearch(given, filter={"is": "red"}))) == rows(memories.search(("users",)))


@pytest.mark.parametrize("distance", ["l2", "inner_product"])
def test_another_measure_of_texts_is_refused(store: Store, distance: str) -> None:
    """It would rank them in another order."""
    with pytest.raises(InvalidInputError, match=f"distance_type is '{distance}'"):
        RefoldStore(store, index={**INDEX, "distance_type": distance})
    memories = RefoldStore(store, index={**INDEX, "distance_type": "cosine"})
    memories.put(("a",), "k", {"text": "ab"})

    assert [item.key for item in memories.search(("a",), query="ab")] == ["k"]


def test_what_cannot_be_compared_is_not_found(memory: Store) -> None:
    """As on LangGraph's databases: of a search, an item without the field or with a text in it is not the end."""
    memories = RefoldStore(memory)
    for key, value in (("high", 9), ("low", 1), ("none", None), ("text", "many"), ("list", [9]), ("long", 10**400)):
        memories.put(("u",), key, {"n": value})
    memories.put(("u",), "without", {})

    assert [item.key for item in memories.search(("u",), filter={"n": {"$gt": 5}})] == ["high"]
    assert [item.key for item in memories.search(("u",), filter={"n": {"$gte": 0, "$lt": 5}})] == ["low"]
    for wrong in (
        {"$gt": "2031-01-01"},
        {"$near": 5},
        {"$gt": 99, "$near": 5},
        {"$eq": 1, "near": 5},
        {"a": {"$near": 5}},
    ):
        for found in ("u", "nobody"):
            with pytest.raises(ValueError, match=r"2031-01-01|near"):
                memories.search((found,), filter={"n": wrong})
