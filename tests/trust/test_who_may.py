"""Who may do what: `refold.open(..., acting="required", allow=...)`."""

import asyncio
from inspect import signature
from typing import Any, cast

import pytest

import refold
from refold.domain.errors import ActorMissingError, InvalidInputError, NotAllowedError, NotFoundError
from refold.domain.kinds import EVERY_KIND
from refold.domain.log.envelope import NO_META
from refold.domain.log.gate import ACTIONS, action_of
from refold.domain.log.log_over import GatedLog, _GatedPages
from refold.domain.log.ports import NewEvents, Range
from refold.domain.moments import MomentNamed
from refold.domain.pool.items import ContextItem as PoolItem
from refold.domain.positions import BEGINNING

from .policy import Policy, filled, recorder_of

EDITS = {
    "chat.named", "chat.item_inserted", "chat.instructions_replaced", "chat.items_evicted", "chat.items_restored",
    "chat.items_pinned", "chat.items_unpinned", "chat.cleared", "chat.summarized", "chat.summary_undone",
    "queue.evicted", "queue.restored", "queue.cleared", "queue.settings_changed", "queue.named", "pool.replaced",
    "pool.removed", "pool.evicted", "pool.restored", "pool.cleared", "pool.settings_changed", "pool.named",
    "window.replaced", "window.dropped", "window.evicted", "window.restored", "window.cleared",
    "window.settings_changed", "window.named", "memory.forgotten", "memory.restored", "memory.named",
    "run.node_changed", "run.node_removed", "run.pointers_moved", "run.portrait_discarded", "run.steps_cleared",
    "run.named", "run.closed",
}  # fmt: skip


def events_of(kind: Any) -> list[type[Any]]:
    """Return the classes of the events of a kind of contexts."""
    return list(getattr(kind.folder().events, "__args__", [kind.folder().events]))


def test_every_event_stands_for_an_action() -> None:
    """A new event must be given its action on purpose."""
    every = [event for kind in EVERY_KIND for event in events_of(kind)]

    edits = {event.__struct_config__.tag.removesuffix(".v1") for event in every if action_of(event) == "edit"}

    assert edits == EDITS, "a new event is an edit, and in EDITS, or it has another action in domain/log/gate.py"
    assert {action_of(event) for event in every} <= set(ACTIONS)


def test_the_same_is_asked_on_every_database(location: str) -> None:
    """Each call asks for its action, its context and its actor."""
    policy = Policy()
    with refold.open(location, allow=policy) as store, refold.acting(actor="ann"):
        chat = store.chat("a")
        chat.add_message("user", "hi", message_id="m1")
        _ = chat.items
        chat.evict(["m1"])
        fork = chat.fork("b")
        fork.add_message("user", "ho")
        asyncio.run(chat.merge(fork))
        store.search("hi", context="a")
        store.audit("a")
        store.verify()
    asked = list(dict.fromkeys(policy.asked))

    assert asked == [
        ("ann", "open", "chat:a"),
        ("ann", "append", "chat:a"),
        ("ann", "read", "chat:a"),
        ("ann", "edit", "chat:a"),
        ("ann", "fork", "chat:a"),
        ("ann", "open", "chat:b"),
        ("ann", "append", "chat:b"),
        ("ann", "read", "chat:b"),
        ("ann", "merge", "chat:a"),
        ("ann", "search", "chat:a"),
        ("ann", "search", "chat:b"),
        ("ann", "audit", "chat:a"),
        ("ann", "audit", "chat:b"),
        ("ann", "admin", None),
    ]


def test_a_search_asks_for_every_context_that_it_is_in(location: str) -> None:
    """One name may be that of several contexts; the kind, before or beside it, says which one is searched."""
    policy = Policy()
    with refold.open(location, allow=policy) as store, refold.acting(actor="ann"):
        store.chat("a")
        store.queue("a")
        policy.asked.clear()
        for context, kind in (("a", None), ("queue:a", None), ("a", "queue")):
            store.search("hi", context=context, kind=kind)

    assert policy.asked == [("ann", "search", f"{kind}:a") for kind in ("chat", "queue", "queue", "queue")]


def test_a_refusal_changes_nothing(location: str) -> None:
    """The error names actor, action and context; the view and the log stay."""
    policy = Policy()
    with refold.open(location, allow=policy) as store:
        chat = store.chat("a")
        policy.allowed = {"read"}

        with refold.acting(actor="bob"), pytest.raises(NotAllowedError, match="'bob' may not append chat:a") as refused:
            chat.add_message("user", "hi")

        assert (refused.value.actor, refused.value.action, refused.value.context) == ("bob", "append", "chat:a")
        assert isinstance(refused.value, PermissionError)
        assert (chat.version, list(chat.items), store.log.head("chat:a")) == (1, [], 1)


def test_queued_changes_and_transactions_are_asked_for_at_the_call(location: str) -> None:
    """Not when they are written: then another one may act, or nobody."""
    policy = Policy()
    with refold.open(location, allow=policy, acting="required") as store:
        with refold.acting(actor="ann"):
            chat, other = store.chat("a", durability="enqueue"), store.chat("b")
            chat.add_message("user", "queued")
        policy.allowed = {"read", "open"}
        # What was allowed at the call is written, whoever waits for it.
        chat.flush()
        assert policy.asked.count(("ann", "append", "chat:a")) == 1
        with refold.acting(actor="bob"), pytest.raises(NotAllowedError):
            chat.add_message("user", "no")
        with refold.acting(actor="bob"), pytest.raises(NotAllowedError), store.transaction():
            other.add_message("user", "no")
        policy.allowed = None
        with store.transaction(), refold.acting(actor="ann"):
            other.add_message("user", "in a transaction")

        assert [[one.content for one in it.messages()] for it in (chat, other)] == [
            [["queued"]],
            [["in a transaction"]],
        ]
        assert {one.meta.actor for one in store.log.read("chat:b")} == {"ann"}


def test_a_change_needs_an_actor_where_one_is_required(location: str) -> None:
    """The error says how; reading needs none, and the default actor of a context is none."""
    with refold.open(location, acting="required") as store:
        with pytest.raises(ActorMissingError, match=r"with refold\.acting\(actor=\.\.\.\)"):
            store.chat("a")
        with refold.acting(actor="ann"):
            chat = store.chat("a", agent="agent")
            chat.add_message("user", "hi")

        with pytest.raises(ActorMissingError):
            chat.add_message("user", "ho")
        with pytest.raises(ActorMissingError):
            store.rebuild("catalogue")
        assert [row.id for row in store.contexts()] == ["a"]
        assert (len(store.chat("a").items), len(store.chat("a").at(2).items)) == (1, 1)


def test_who_may_only_append_learns_nothing() -> None:
    """Neither by a read, nor by the answer of a change that has no effect, nor by an error that tells of the state."""
    policy = Policy()
    with refold.open(":memory:", allow=policy) as store:
        chat, window = store.chat("a"), store.window("w")
        chat.add_message("user", "secret", message_id="m1")
        policy.allowed = {"open", "append"}

        store.chat("a").add_message("user", "more")
        for look in (
            lambda: chat.items,
            lambda: chat.add_message("user", "another", message_id="m1"),
            lambda: chat.add_message("user", "secret", message_id="m1"),
            lambda: chat.evict(["no such item"]),
            lambda: window.remove("no such item"),
            lambda: store.log.read("chat:a"),
            lambda: chat.add_message("user", "x", expected_version=1),
        ):
            with pytest.raises(NotAllowedError):
                look()
        assert store.log.head("chat:a") == 3


def test_items_of_other_contexts_are_read(location: str) -> None:
    """A fork asks for its parent, and a merge for the other side, also in another class of contexts."""
    policy = Policy()
    with refold.open(location, allow=lambda *asked: policy(*asked) and asked[1:] != ("read", "chat:b")) as store:
        chat = store.chat("a")
        store.chat("b").add_message("user", "secret")

        with pytest.raises(NotAllowedError, match="read chat:b"):
            asyncio.run(chat.merge(store.chat("b")))
        with pytest.raises(NotAllowedError, match="read chat:b"):
            store.chat("b").fork("c")
        assert store.log.head("chat:c") == 0


def test_a_question_about_a_context_is_asked_for_those_that_it_took_from(location: str) -> None:
    """A fork, a branch, or the receiver of a merge tells of no text of a context that may not be read."""
    hidden = {"chat:b", "pool:b"}
    with refold.open(location, allow=lambda actor, action, context: actor == "ann" or context not in hidden) as store:
        with refold.acting(actor="ann"):
            asyncio.run(_taken_from_b(store))
        for name in ("chat:fork", "chat:fork of it", "chat:filtered", "chat:brief", "chat:merged", "pool:branch"):
            for ask in (
                lambda name=name: store.search("secret", context=name),
                lambda name=name: store.why_gone(name, "gone"),
                lambda name=name: store.audit(name),
            ):
                with pytest.raises(NotAllowedError, match=r"(search|audit) (chat|pool):b:"):
                    ask()
        with pytest.raises(NotAllowedError, match="read pool:b:"):
            store.entries("branch")
        assert store.audit("chat:alone")


async def _taken_from_b(store: refold.Store) -> None:
    source = store.chat("b")
    for item_id in ("m1", "gone"):
        source.add_message("user", "secret", message_id=item_id)
    source.evict(["gone"], reason="secret")
    source.fork("fork").fork("fork of it")
    source.fork_filtered(1, context_id="filtered")
    source.fork_brief("be brief", context_id="brief")
    await store.chat("merged").merge(source)
    store.chat("alone").add_message("user", "hello")
    pool = store.pool("b")
    await pool.add(PoolItem(content="secret", description="d", id="gone"))
    await pool.remove("gone")
    pool.branch("branch")


def test_a_round_that_goes_back_over_another_reads_it(location: str) -> None:
    """The library reads the earlier round for the new one, so it asks for it."""
    policy = Policy()
    with refold.open(location, allow=lambda *asked: policy(*asked) and asked[1:] != ("read", "run:u/s/0/0")) as store:
        store.run("u", "s").register_query("why?")

        with pytest.raises(NotAllowedError, match="read run:u/s/0/0"):
            store.run("u", "s", 1)
        assert store.log.head("run:u/s/1/0") == 0


def test_handles_that_were_opened_before_ask_each_time(location: str) -> None:
    """Handles, views of the past and async siblings, with what they have read already."""
    policy = Policy()
    with refold.open(location, allow=policy) as store:
        handles = asyncio.run(filled(store))
        chat, then, at = handles["ChatContext"], handles["ReadOnlyChatContext"], handles["StoreAt"]
        sibling = refold.to_async(chat)
        policy.allowed = {"open"}

        async def awaited() -> None:
            await sibling.items

        for look in (
            lambda: chat.items,
            lambda: then.items,
            lambda: at.chat("a").items,
            lambda: asyncio.run(awaited()),
            lambda: recorder_of(store).select_events("chat:a"),
            lambda: chat.readonly.messages(),
        ):
            with pytest.raises(NotAllowedError):
                look()


def test_a_subscription_stops_before_an_event_that_may_not_be_read(location: str) -> None:
    """It gives that event as soon as it may be read, and no event is left out."""
    policy, hidden = Policy(), {"chat:b"}
    with refold.open(location, allow=lambda *asked: policy(*asked) and asked[2] not in hidden) as store:
        chat = store.chat("a", session="s")
        hidden.clear()
        store.chat("b", session="s")
        chat.add_message("user", "hi")
        hidden.add("chat:b")
        events = store.subscribe()

        assert next(events).reference == "chat:a@1"
        with pytest.raises(NotAllowedError):
            next(events)
        hidden.clear()
        assert [next(events).reference for _ in range(2)] == ["chat:b@1", "chat:a@2"]


def test_a_subscription_to_contexts_that_can_be_gone_through_once(location: str) -> None:
    """To ask for each of them leaves them to the subscription."""
    with refold.open(location, allow=Policy()) as store:
        store.chat("a")

        assert next(store.subscribe(contexts=iter(["chat:a"]))).reference == "chat:a@1"


def test_events_that_are_appended_directly_are_asked_for(location: str) -> None:
    """The log of the store is no way around."""
    policy = Policy()
    with refold.open(location, allow=policy) as store:
        policy.allowed = set()
        new = NewEvents(
            stream="store:moments",
            expected_version=0,
            events=(MomentNamed(name="x", moment="1"),),
            metas=(NO_META,),
        )

        with pytest.raises(NotAllowedError):
            store.log.append((new,)).result()
        assert store.log.head("store:moments") == 0


def test_the_policy_may_look_into_the_store() -> None:
    """It is not asked about what it reads itself."""
    opened: list[refold.Store] = []

    def allow(actor: str | None, action: str, context: str | None) -> bool:
        return not opened or actor in [one.agent_id for one in opened[0].chat("allowed").messages()]

    with refold.open(":memory:", allow=allow) as store:
        store.chat("allowed").add_message("user", "in", agent_id="ann")
        store.chat("a")
        opened.append(store)

        with refold.acting(actor="ann"):
            assert store.chat("a").version == 1
        with refold.acting(actor="bob"), pytest.raises(NotAllowedError):
            store.chat("a")
        opened.clear()


@pytest.mark.parametrize("answer", [1, "yes", (lambda: True)])
def test_only_true_allows(answer: object) -> None:
    """A function that returns something else by mistake, such as a coroutine, allows nothing."""
    with refold.open(":memory:", allow=lambda *_: answer) as store, pytest.raises(InvalidInputError, match="True or"):
        store.chat("a")


def test_the_error_of_a_policy_is_raised() -> None:
    """A policy may refuse with an error of its own."""

    def allow(*_: object) -> bool:
        raise KeyError("no such tenant")

    with refold.open(":memory:", allow=allow) as store, pytest.raises(KeyError, match="no such tenant"):
        store.chat("a")


@pytest.mark.parametrize("wrong", [{"acting": "maybe"}, {"allow": "everybody"}])
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    """Before anything is opened."""
    with pytest.raises(InvalidInputError):
        refold.open(":memory:", **wrong)


def test_names_that_no_context_has_are_asked_for_as_they_are() -> None:
    """Who may not audit does not learn whether there is such a context."""
    policy = Policy()
    with refold.open(":memory:", allow=policy) as store:
        policy.allowed = set()
        with pytest.raises(NotAllowedError):
            store.audit("nowhere")
        policy.allowed = None
        with pytest.raises(NotFoundError):
            store.audit("nowhere")


def test_a_store_closes_whoever_may_read(location: str) -> None:
    """A list that was handed out is read to its end when the store closes, and nobody is asked again."""
    policy = Policy()
    with refold.open(location, allow=policy) as store:
        chat = store.chat("a")
        chat.add_messages([{"role": "user", "content": str(number)} for number in range(1_500)])
        _ = store.chat("a").items
        again = store.chat("a").items
        policy.allowed = set()

    assert len(again) == 1_500


# What is asked before a call of a log; before the others nothing is.
ASKED = {
    **dict.fromkeys(("read", "read_events", "recorded_under", "snapshot"), ("read", "stream")),
    "read_ranges": ("read", "chat:a"),
    **dict.fromkeys(("streams", "streams_with_snapshot", "doubtful_streams"), ("search",)),
    **dict.fromkeys(("read_all", "idempotency_keys"), ("read",)),
    **dict.fromkeys(("erase", "scrub"), ("admin",)),
    "append": (Range("chat:a", 0, 1),),
}


class Called:
    """In the place of a log, or of a gate: it notes each call, and returns what it noted."""

    is_inside = False

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def call(*given: object, **options: object) -> Any:
            self.calls.append((name, given, options))
            return self.calls[-1]

        return call


@pytest.mark.parametrize(
    "name", [name for name in dir(GatedLog) if name[0] != "_" and callable(getattr(GatedLog, name))]
)
def test_what_may_be_done_is_done_by_the_log_below(name: str) -> None:
    """It is asked for, done with all that was given, and the answer is that of the log."""
    log, gate = Called(), Called()
    taken = signature(getattr(GatedLog, name))
    parameters = [*taken.parameters.values()][1:]
    values = {one.name: [Range("chat:a", 0, 1)] if "Sequence" in one.annotation else one.name for one in parameters}
    given = tuple(values[one.name] for one in parameters if one.kind != one.KEYWORD_ONLY)
    options = {one.name: one.name for one in parameters if one.kind == one.KEYWORD_ONLY}

    answer = getattr(GatedLog(cast(Any, log), cast(Any, gate)), name)(*given, **options)

    assert log.calls == [(name, given, options)]
    assert answer == (None if taken.return_annotation == "None" else log.calls[0])
    assert [asked for _, asked, _ in gate.calls] == ([ASKED[name]] if name in ASKED else [])


def test_a_partition_is_read_by_who_may_read() -> None:
    """It is asked for each page, and the page is that of the log below; the present end needs no asking."""
    log, gate = Called(), Called()
    pages = _GatedPages(cast(Any, log), cast(Any, gate))

    assert cast(Any, pages.read_all(after=BEGINNING, limit=5)) == log.calls[0]
    assert log.calls == [("read_all", (), {"after": BEGINNING, "limit": 5, "until": None, "undecodable": False})]
    assert gate.calls == [("ask", ("read",), {})]
    assert cast(Any, pages.now()) == ("now", (), {})
