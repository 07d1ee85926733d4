"""The JSON of the Inspector, asked as the page asks, on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.inspector import answers
from refold.infrastructure.inspector.parameters import Parameters
from refold.infrastructure.inspector.questions import ACTIONS, QUESTIONS
from refold.infrastructure.log.codec import tag_of
from tests.support.every_kind import fill

from .asking import LOCAL, Asked


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Asked]:
    """A filled store of each sort, served for writing."""
    places = {"memory": ":memory:", "sqlite": str(tmp_path / "s.db")}
    place = places.get(request.param) or request.getfixturevalue("ready_pg_url")
    with refold.open(place) as store:
        asyncio.run(fill(store))
        yield Asked(store, write=True)


def wishes(store: refold.Store, question: str) -> Iterator[dict[str, Any]]:
    """Yield parameters of a question, for every context that it can be about."""
    rows = store.contexts()
    chat = next(row for row in rows if row.kind == "chat")
    given = {
        "items": {"ref": f"{chat.key}@2"},
        "diff": {"before": f"{chat.key}@1", "after": f"{chat.key}@{chat.version}"},
        "why": {"context": chat.key, "item": store.chat(chat.id).items[0].id},
        "pins": {"context": chat.key},
        "intervals": {"context": chat.key, "version": "2"},
        "replay": {"context": chat.key, "policy": "items:3"},
        "event": {"event": f"{chat.key}@1"},
        "pieces": {"event": f"{chat.key}@2"},
        "search": {"q": "question", "context": chat.key},
        "projection": {"name": "catalogue"},
        "resolve": {"context": chat.key, "at": "-1"},
        "preview": {"source": chat.key, "target": chat.key},
    }
    if question == "node":
        run = store.run("u", "s", create=False) if any(row.id == "u/s/0/0" for row in rows) else None
        yield from ({"name": name} for name in (run.nodes() if run else [])[:1])
    elif question == "graph":
        yield from ({"context": row.key} for row in rows if row.kind == "run")
    elif question in ("context", "view", "left", "audit"):
        yield from ({"context": row.key} for row in rows if question in ("context", "audit") or row.kind != "run")
    else:
        yield given.get(question, {})


def test_every_question_is_answered(asked: Asked) -> None:
    """Whatever a store holds, each question about it has an answer."""
    for question in QUESTIONS:
        for wish in wishes(asked.store, question):
            asked(question, **wish)


def test_intervals_say_what_every_version_showed(asked: Asked) -> None:
    """The page filters intervals where the store folds: both show the same items at each version of each chat."""
    for row in asked.store.contexts():
        if row.kind != "chat":
            continue
        items = asked("context", context=row.key)["items"]
        chat = asked.store.chat(row.id, create=False)
        for version in range(1, row.version + 1):
            there = [
                name
                for name, came, left in zip(items["item"], items["v0"], items["v1"], strict=True)
                if came <= version and (left == 0 or left > version)
            ]
            assert there == [item.id for item in chat.at(version).items], f"{row.key}@{version}"


def test_the_log_has_each_event_once(asked: Asked) -> None:
    """Pages behind each other are the whole log; with slices a jump lands at a whole event, too."""
    seen, after = [], None
    while True:
        page = asked("log", limit=7, **({"after": after} if after else {}))
        if not page["events"]:
            break
        seen += [f"{event['stream']}@{event['version']}" for event in page["events"]]
        after = page["next"]

    assert len(seen) == len(set(seen)) == asked.meta["events"]
    assert asked("log", row=3, limit=2)["events"]


def test_a_filtered_log_goes_on_where_it_stopped(asked: Asked) -> None:
    """With a filter, the answer says how far it looked."""
    wanted = asked("log", type="run", limit=500)

    assert {event["stream"].partition(":")[0] for event in wanted["events"]} == {"run"}
    assert wanted["scanned"] == asked.meta["events"]


def test_an_event_says_what_led_to_it(asked: Asked) -> None:
    """The chain of causes can be read without asking for each; a cause that is no event of the store has no line."""
    queue = asked.store.queue("caused")
    with refold.acting(because="chat:gone@7"):
        asyncio.run(queue.append(refold.PoolItem(1, "first")))
    with refold.acting(because=f"queue:caused@{queue.version}"):
        asked.store.chat("answer").add_message("user", "second")

    found = asked("event", event="chat:answer@2")
    assert found["causes"] == [f"queue:caused@{queue.version}", "chat:gone@7"]
    assert [(line["stream"], line["version"]) for line in found["chain"]] == [("queue:caused", queue.version)]


def test_an_audit_has_every_change_of_an_item(asked: Asked) -> None:
    """Of one item only its own changes, each with its event and its reason."""
    item = asked.store.chat("a").items[1].id
    found = asked("audit", context="chat:a", item=item)

    assert [(one["attribute"], one["reason"]) for one in found] == [(None, None), ("pinned", "the first question")]
    assert len(asked("audit", context="chat:a")) > len(found)


def test_a_merged_answer_has_the_text_of_its_origin(asked: Asked) -> None:
    """Also where it was written piece by piece; what the merge added is the agent, and who merged."""
    chat = asked.store.chat("one")
    side = chat.fork("other")
    with side.stream() as out:
        out.write("So it is.")
    with refold.acting(actor="mia"):
        asyncio.run(chat.merge_result(side, agent_id="helper"))
    [birth] = asked("context", context="chat:one")["items"]["birth"]
    [item] = asked("items", ref=birth)

    assert birth == f"chat:one@{chat.version}"
    assert (item["ref"], item["body"], item["actor"], item["speaker"]) == (birth, "So it is.", "mia", "assistant")


def test_a_pool_has_what_left_it_again(asked: Asked) -> None:
    """Each version shows what was in it then, not only what is in it still."""
    columns = asked("context", context="pool:p2")["items"]
    before = [item for item, v0, v1 in zip(columns["item"], columns["v0"], columns["v1"], strict=True) if v0 <= 1 < v1]

    assert before == ["i1"]


def test_pins_say_what_every_version_kept(asked: Asked) -> None:
    """An item is pinned from the version that pinned it, and in a fork from its beginning, until it is let go."""
    chat = asked.store.chat("a")
    first = chat.items[1].id
    child = chat.fork("child")
    child.unpin(first)
    [[origin, since, until]] = asked("pins", context="chat:a")
    assert first in {one["id"] for one in asked("items", ref=origin)}
    assert [set(chat.at(version).pinned_ids()) == {first} for version in (since - 1, since)] == [False, True]
    assert until == 0
    assert asked("pins", context="chat:child") == [[origin, 1, child.version]]


def test_a_diff_has_all_items_in_one_order(asked: Asked) -> None:
    """The lines are the newer version in its order, with those that went where they were."""
    for before, after in ((5, 29), (29, 5), (3, 12), (12, 12)):
        found = asked("diff", before=f"chat:a@{before}", after=f"chat:a@{after}")
        lines = found["lines"]
        chat = asked.store.chat("a")
        shown = [asked("items", ref=ref)[0]["id"] for _, _, ref in lines if ref]
        assert shown == [item.id for item in chat.at(after).items]
        was = {ref for _, ref, _ in lines if ref}
        assert len(was) == len(chat.at(before).items)
        for sort in ("added", "removed", "changed"):
            assert sum(one == sort for one, _, _ in lines) == len(found[sort]), (before, after, sort)


def test_a_diff_of_a_run_has_its_nodes(asked: Asked) -> None:
    """Nodes that came, and attributes that changed; a run and a chat have nothing to compare."""
    head = asked.store.run("mia", "s1", 1).version
    found = asked("diff", before="run:mia/s1/1/0@4", after=f"run:mia/s1/1/0@{head}")

    assert [node["name"] for node in found["nodes_added"]] == ["State(state00001)"]
    assert {(one["node"], one["attribute"]) for one in found["changed"]} == {("Table(orders)", "description")}
    wrong = asked.client.get("/api/diff", params={"before": "run:mia/s1/1/0@3", "after": "chat:a@3"})
    assert wrong.status_code == 400
    assert "a run only" in wrong.json()["message"]


def test_a_replay_shows_both_prompts_of_each_call(asked: Asked) -> None:
    """Under the policy each prompt has at most so many items; as recorded it has those of the version before."""
    found = asked("replay", context="chat:a", policy="items:3")
    chat = asked.store.chat("a")
    assert found["sums"]["calls"] == len(found["calls"]) > 2
    for call in found["calls"]:
        prompts = asked("replay", context="chat:a", policy="items:3", seen=call["version"])
        assert len(prompts["now"]) <= 3
        was = [asked("items", ref=ref)[0]["id"] for ref in prompts["then"]]
        assert was == [item.id for item in chat.at(call["version"] - 1).items]


@pytest.mark.parametrize("most", [3, 50_000])
def test_the_times_of_versions(asked: Asked, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Each version has its time, its type and its actor; of a long context the newest have."""
    monkeypatch.setattr(answers, "VERSIONS_MAX", most)
    for row in asked.store.contexts():
        recorded = asked.store.log.read(row.key)[-most:]
        found = asked("context", context=row.key)["versions"]

        assert found["first"] == recorded[0].version
        assert found["at"] == [event.recorded_at // 1_000 for event in recorded]
        assert [found["types"][number] for number in found["type"]] == [tag_of(event.event) for event in recorded]
        assert [found["actors"][number] for number in found["actor"]] == [event.meta.actor or "" for event in recorded]


def test_the_log_of_one_context_is_filtered_too(asked: Asked) -> None:
    """By text and type; the text may be far behind what a line shows."""
    asked.store.chat("wordy").add_message("user", "x " * 600 + "Needle")
    found = asked("log", q="needle")
    assert [(line["stream"], line["version"]) for line in found["events"]] == [("chat:wordy", 2)]
    assert [line["version"] for line in asked("log", context="chat:a", q="question 1")["events"]] == [7]
    evicted = asked("log", context="chat:a", type="chat.items_evicted.v1")
    assert [line["version"] for line in evicted["events"]] == [28]
    assert asked("log", context="chat:a", type="chat", after=evicted["next"])["events"] == []


def test_a_message_in_pieces_is_whole_at_each_version(asked: Asked) -> None:
    """The beginning and the pieces up to a version are the message as the chat has it then."""
    chat = asked.store.chat("written")
    with chat.stream() as out:
        for word in ("one ", "two ", "three"):
            out.write(word)
            out.flush()
            chat.add_message("user", f"while {word}")
    with suppress(ValueError), chat.stream() as out:
        out.write("half ")
        out.flush()
        raise ValueError("broken")
    items = asked("context", context="chat:written")["items"]
    for origin, since, role in zip(items["birth"], items["v0"], items["role"], strict=True):
        [item] = asked("items", ref=origin)
        assert item["grows"] == (role == "assistant")
        if not item["grows"]:
            continue
        found = asked("pieces", event=origin)
        for version in range(since, chat.version + 1):
            said = [piece for piece in found["pieces"] if piece[0] <= version]
            reason = said[-1][2] if said else found["incomplete"]
            text = found["begun"] + "".join(piece[1] for piece in said)
            item_then = next(one for one in chat.at(version).items if one.id == item["id"])
            assert isinstance(item_then, refold.ChatMessage)
            assert [text] == item_then.content
            assert item_then.incomplete == reason
        assert found["is_written"]
    assert asked.client.get("/api/pieces?event=chat:written@1").status_code == 404


def test_only_what_names_versions_is_kept(asked: Asked) -> None:
    """A browser may keep an answer for ever if it can never change, and no other: a view has the head of now."""
    get, start = asked.client.get, asked.meta["cache"]
    paths = ("left?version=3", "left?", "left?version=-1", "view?version=3")
    kept, *others = (get(f"/api/{path}&context=chat:a&start={start}") for path in paths)
    both = [get(f"/api/items?ref=chat:a@3&ref=chat:a@{number}&start={start}") for number in (4, 999)]
    assert kept.headers["cache-control"] == "private, max-age=31536000, immutable"
    others.append(get("/api/left?version=3&context=chat:a"))
    assert {one.headers["cache-control"] for one in others} == {"no-store"}
    # An event that is not there yet may come.
    assert ["immutable" in answer.headers["cache-control"] for answer in both] == [True, False]
    # Another store may be served at this address later.
    assert start != Asked(asked.store).meta["cache"]


@pytest.mark.parametrize(
    ("question", "wish", "status"),
    [
        ("nothing", {}, 404),
        ("view", {}, 400),
        ("view", {"context": "none"}, 404),
        ("view", {"context": "chat:a", "version": "9999"}, 404),
        ("view", {"context": "run:u/s/0/0"}, 404),
        ("items", {"ref": "nonsense"}, 400),
        ("items", {}, 400),
        ("log", {"limit": "many"}, 400),
        ("log", {"limit": "0"}, 400),
        ("log", {"limit": "1000000"}, 400),
        ("log", {"after": "?"}, 400),
        ("event", {"event": "chat:a@9999"}, 404),
        ("search", {"q": "   "}, 400),
        ("audit", {"context": "chat:a", "item": "none"}, 404),
        ("replay", {"context": "chat:a"}, 400),
        ("replay", {"context": "chat:none", "policy": "items:3"}, 404),
        ("replay", {"context": "chat:a", "policy": "newest"}, 400),
        ("replay", {"context": "chat:a", "policy": "all", "seen": "2"}, 400),
    ],
)
def test_what_cannot_be_answered_says_why(question: str, wish: dict[str, str], status: int) -> None:
    """A wrong question gets a typed error and changes nothing."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "hello")
        before = store.now()
        answer = Asked(store).client.get(f"/api/{question}", params=wish)

        assert answer.status_code == status, answer.text
        assert set(answer.json()) == {"error", "message"}
        assert store.now() == before


def test_a_graph_may_come_with_some_attributes_only(asked: Asked) -> None:
    """Nodes keep those of the names that they have; without names they have all."""
    run = next(row.key for row in asked.store.contexts() if row.kind == "run" and row.items)
    whole, some = asked("graph", context=run), asked("graph", context=run, attributes="description,success")

    for one, other in zip(whole["nodes"], some["nodes"], strict=True):
        kept = {name: value for name, value in one["attributes"].items() if name in ("description", "success")}
        assert other == {**one, "attributes": kept}
    assert any(set(one["attributes"]) - {"description", "success"} for one in whole["nodes"])


def test_changes_need_the_token_of_this_start(asked: Asked) -> None:
    """Reading is free; a change without the page's token, as a form of another site would send it, is refused."""
    wish = {"context": "chat:a", "version": 3, "name": "copy"}
    plain = asked.client.post("/api/fork", json=wish)
    form = asked.client.post("/api/fork", content=b"{}", headers={"x-refold-token": asked.meta["token"]})
    foreign = asked.client.post("/api/fork", json=wish, headers={"origin": "http://evil.example"})

    assert (plain.status_code, form.status_code, foreign.status_code) == (403, 415, 403)
    assert asked.change("fork", **wish).json() == {"context": "chat:copy", "version": 1}
    assert [item.id for item in asked.store.chat("copy").items] == [
        item.id for item in asked.store.chat("a").at(3).items
    ]
    assert asked.change("merge", source="chat:copy", target="chat:cleared").json()["context"] == "chat:cleared"


def test_a_read_only_page_changes_nothing() -> None:
    """Without `write` there is no token, and no request changes anything."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "hello")
        page = Asked(store)

        assert page.meta["token"] is None
        assert page.change("fork", context="chat:a", name="b").status_code == 403
        assert [row.id for row in store.contexts()] == ["a"]


def test_a_person_decides_on_a_call() -> None:
    """A call that waits is listed, and a decision is recorded with the name of who made it."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.add_function_call("pay", '{"amount": 9}', call_id="c1")
        chat.approvals.request("c1", because="much money")
        page = Asked(store, write=True)

        [waiting] = page("approvals")
        assert waiting["call_id"] == "c1"
        unclear = page.change("decide", context="chat:a", call_id="c1", decision="perhaps")
        assert (unclear.status_code, len(page("approvals"))) == (400, 1)
        page.change("decide", context="chat:a", call_id="c1", decision="reject", because="no", actor="mia")
        assert page("approvals") == []
        approval = store.chat("a").approvals.of("c1")
        assert approval is not None
        assert (approval.state, approval.by) == ("rejected", "mia")


def test_other_hosts_are_refused_and_every_answer_is_guarded() -> None:
    """A name that leads here by a trick of DNS is not answered; the policy forbids foreign scripts everywhere."""
    with refold.open(":memory:") as store:
        page = Asked(store)
        assert page.client.get("/", headers={"host": "evil.example"}).status_code == 400
        for path in ("/", "/c/a@3", "/api/meta", "/api/nothing", "/log"):
            policy = page.client.get(path).headers["content-security-policy"]
            assert "script-src 'self'" in policy
            assert "require-trusted-types-for 'script'" in policy


def test_a_text_is_hidden_wherever_it_would_leave() -> None:
    """The hook sees every text of every answer, errors included."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.add_message("user", "my key is sk-secret")
        chat.evict(chat.items[0].id, reason="sk-secret was in it")
        page = Asked(store, redact=lambda text: text.replace("sk-secret", "***"))
        for question in QUESTIONS:
            for wish in () if question in ("graph", "node", "why") else wishes_of_one(chat.id):
                answer = page.client.get(f"/api/{question}", params=wish)
                assert "sk-secret" not in answer.text, question
        assert "sk-secret" not in page.client.get("/api/view", params={"context": "sk-secret"}).text


def wishes_of_one(context: str) -> list[dict[str, str]]:
    """Return one wish that all questions about a small chat understand."""
    stream = f"chat:{context}"
    return [
        {"context": stream, "ref": f"{stream}@2", "event": f"{stream}@3", "q": "key", "at": "2",
         "policy": "all",
         "before": f"{stream}@1", "after": f"{stream}@3"}
    ]  # fmt: skip


def test_it_is_mounted_in_an_app_of_ones_own() -> None:
    """Below a path of another app, the page's own addresses begin with that path."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    with refold.open(":memory:") as store:
        app = Starlette(routes=[Mount("/debug/refold", refold.inspector(store))])
        client = TestClient(app, base_url=LOCAL)
        text = client.get("/debug/refold/c/a").text
        script = text.partition('<script type="module" src="')[2].partition('"')[0]

        assert script.startswith("/debug/refold/static/")
        assert client.get(script).status_code == 200
        assert client.get("/debug/refold/api/meta").json()["events"] == 0


def test_a_name_without_its_kind_is_that_of_a_chat() -> None:
    """The page's short addresses work whatever else has the same name; a name of one context alone needs no kind."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "hello")
        store.chat("pool:a").add_message("user", "hello")
        for name in ("a", "b"):
            store.window(name).add(refold.BudgetItem("k", "v", "tool", 1))
        page = Asked(store)
        names = ("a", "chat:a", "chat:pool:a", "pool:a", "window:a", "b")

        assert [page("context", context=name)["context"] for name in names] == [
            "chat:a", "chat:a", "chat:pool:a", "chat:pool:a", "window:a", "window:b",
        ]  # fmt: skip


def test_the_description_names_all_that_is_there() -> None:
    """The OpenAPI file has each question with its parameters."""
    with refold.open(":memory:") as store:
        paths = Asked(store)("openapi.json")["paths"]
    assert {f"/api/{path}" for path in (*QUESTIONS, *ACTIONS, "meta", "jobs", "tail")} == set(paths)
    for path, action in ACTIONS.items():
        post = paths[f"/api/{path}"]["post"]
        assert set(post["requestBody"]["content"]["application/json"]["schema"]["properties"]) == set(action.fields)
        assert [one["name"] for one in post["parameters"]] == ["x-refold-token"] * action.needs_token
    for path, question in QUESTIONS.items():
        get = paths[f"/api/{path}"]["get"]
        assert {one["name"] for one in get["parameters"]} == set(question.parameters)
        assert {"500", "503"} <= set(get["responses"])


async def test_news_come_once_and_go_on_after_a_pause() -> None:
    """The stream names each context that grew; a browser that comes back gets what it missed, and no more."""
    from refold.infrastructure.inspector.jobs import Jobs
    from refold.infrastructure.inspector.live import _lines

    class Open:
        async def is_disconnected(self) -> bool:
            return False

    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "one")
        seen = store.now()
        store.chat("a").add_message("user", "two")
        lines = _lines(Jobs(store), str, seen, Open())  # type: ignore[arg-type]  # only this is asked of a request
        assert "retry:" in await anext(lines)
        news = await anext(lines)
        assert 'event: news\nid: 3\ndata: {"heads": {"chat:a": 3}, "events": 1' in news
        store.chat("b").add_message("user", "three")
        assert '"chat:b": 2' in await anext(lines)


def test_what_left_comes_a_page_at_a_time() -> None:
    """The newest departure first, each once, and how many there are."""
    with refold.open(":memory:") as store:
        chat = store.chat("x")
        ids = [chat.add_message("user", str(number)).id for number in range(5)]
        for item in ids[:3]:
            chat.evict(item)
        page = Asked(store)

        assert [one["item"]["id"] for one in page("left", context="x")["items"]] == ids[2::-1]
        for skip, more in ((0, True), (1, False)):
            answer = page("left", context="x", limit=2, skip=skip)
            assert [one["item"]["id"] for one in answer["items"]] == ids[2::-1][skip : skip + 2]
            assert (answer["count"], answer["more"]) == (3, more)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "the parameter items is missing"),
        ({"items": "m1"}, "give a list with one value at least"),
        ({"items": []}, "give a list with one value at least"),
        ({"items": ["a", "b", "c"]}, "items has 3 values: give 2 at most"),
        ({"items": ["a", ""]}, "give texts that are not empty"),
        ({"items": ["a", 7]}, "items has '7': give texts that are not empty"),
    ],
)
def test_what_is_no_list_of_texts(given: dict[str, Any], says: str) -> None:
    """It is refused with its name; a list of some texts is not."""
    assert Parameters({"items": ["a", "b"]}, ()).texts("items", 2) == ["a", "b"]
    with pytest.raises(InvalidInputError, match=says):
        Parameters(given, ()).texts("items", 2)
