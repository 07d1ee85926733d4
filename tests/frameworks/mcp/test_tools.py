"""The tools and resources, asked by the package's own client, in memory: on each kind of store, and badly."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

import refold
from refold.infrastructure.cli import main
from refold.infrastructure.frameworks.mcp.answers import ANSWER_MAX, MESSAGES_MAX, MESSAGES_TEXT_MAX
from refold.infrastructure.frameworks.mcp.server import LISTED, uri_of
from refold.infrastructure.frameworks.mcp.tools import TOOLS
from refold.mcp import mcp_server
from refold.pool import ContextItem

# Both ways in which a client begins: the handshake of versions up to 2025-11-25, and requests that stand alone.
MODES = ("legacy", "auto")
READING = ("context_view", "context_history", "context_diff", "context_search", "why_gone")
DEEP: dict[str, Any] = {}
for _ in range(200):
    DEEP = {"deep": DEEP}
HOSTILE: tuple[Any, ...] = (
    None, True, 1.5, -1, 1 << 70, "", " ", "@", "a@", "a@b@c", "..", "a@1..2..3", "chat:", "nothing", "a@99", "a@-99",
    "a@pos:x", "a@2026-13-99", "\x00", "\ud800", "x" * 100_000, "9" * 5_000, [], [[]], {}, DEEP, ["a", None], [""],
    "' or 1=1 --", "../../etc/passwd", "Table(", "a@item:none", "9:9", "0:999999999999999999", "1" * 30 + ":1",
)  # fmt: skip


@asynccontextmanager
async def asking(store: refold.Store, mode: str = "auto", **settings: Any) -> AsyncIterator[Client]:
    """Return a client of a server over a store that may be changed, unless `settings` say otherwise."""
    async with Client(mcp_server(store, **{"write": True, **settings}), mode=mode) as client:
        yield client


async def answer(client: Client, tool: str, **arguments: Any) -> Any:
    """Return the answer of a tool, which must succeed; its text says the same as its data."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    [content] = result.content
    assert json.loads(content.text) == result.structured_content
    return result.structured_content


async def fault(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text of the error of a tool."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    assert result.structured_content["message"] == result.content[0].text
    return str(result.content[0].text)


def support(store: refold.Store) -> refold.ChatContext:
    """Return a chat with a call, its output, and something that left."""
    chat = store.chat("support")
    chat.add_message("user", "Where is order 7?")
    chat.add_function_call("lookup", '{"order": 7}', call_id="c1")
    chat.add_function_output("lookup", "in Lyon", call_id="c1")
    chat.add_message("assistant", "It is in Lyon.")
    chat.evict([chat.items[0].id], reason="too old")
    return chat


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_keeps_a_chat(store: refold.Store, mode: str) -> None:
    """It appends, looks, forks, merges, evicts, restores and asks why; the store has all of it, by the actor."""
    async with asking(store, mode, actor="coder") as client:
        said = [{"role": "user", "content": "Where is order 7?"}, {"role": "assistant", "content": "In Lyon."}]
        made = await answer(client, "context_append", context="support", messages=said, create=True)
        child = await answer(client, "context_fork", context=f"support@{made['version']}", new="draft")
        more = [{"role": "user", "content": "And order 8?"}]
        await answer(client, "context_append", context="draft", messages=more)
        difference = await answer(client, "context_diff", context="support", other="draft")
        merged = await answer(client, "context_merge", source="draft", into="chat:support")
        gone = await answer(client, "context_evict", context="support", items=["@2"], reason="answered")
        why = await answer(client, "why_gone", context="support", item=gone["item_ids"][0])
        left = await answer(client, "context_view", context="support", evicted=True)
        found = await answer(client, "context_search", query="order")
        back = await answer(client, "context_restore", context="support")
        history = await answer(client, "context_history", context="support")

    chat = store.chat("support")
    assert child["parent"] == {"context": "support", "version": made["version"]}
    assert [one["item"]["content"] for one in difference["added"]] == ["And order 8?"]
    assert (merged["items"], back["item_ids"]) == (1, gone["item_ids"])
    assert back["tokens"] == gone["tokens_removed"] > 0
    assert (why["state"], why["reason"], why["actor"]) == ("gone", "answered", "coder")
    assert [one["left"]["reason"] for one in left["items"]] == ["answered"]
    assert {(hit["context"], hit["kind"]) for hit in found["hits"]} == {("support", "chat"), ("draft", "chat")}
    assert [item.text for item in chat.messages()] == ["Where is order 7?", "In Lyon.", "And order 8?"]
    assert {one.meta.actor for one in chat.history()} == {"coder"}
    assert [one["actor"] for one in history["changes"]] == ["coder"] * len(history["changes"])
    assert store.verify(processes=1).problems == ()


async def test_without_write_nothing_can_change(store: refold.Store) -> None:
    """The tools that change are not offered, and a call of one is refused as that of a tool that does not exist."""
    support(store)
    before = store.now()
    async with asking(store, write=False) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [*READING]
        assert all(tool.annotations.read_only_hint for tool in listed)
        for name in set(TOOLS) - set(READING):
            with pytest.raises(MCPError, match=f"there is no tool '{name}'"):
                await client.call_tool(name, {"context": "support"})

    assert store.now() == before


async def test_answers_are_those_of_the_command_line(tmp_path: Path) -> None:
    """The same data as `--json` prints."""
    place = str(tmp_path / "s.db")
    with refold.open(place) as store:
        chat = support(store)
        await store.queue("todo").append(ContextItem("call back"))
        first = chat.at(2).items[0].id

    def printed(*arguments: str) -> Any:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main([*arguments, "--db", place, "--json"]) == 0
        return json.loads(out.getvalue())

    with refold.open(place) as store:
        async with asking(store) as client:
            for reference in ("support", "support@2", "support@-1", "queue:todo"):
                shown = await answer(client, "context_view", context=reference)
                assert shown == {**printed("show", reference), "cursor": None}
            left = await answer(client, "context_view", context="support", evicted=True)
            assert left["items"] == printed("show", "support", "--evicted")["items"]
            difference = await answer(client, "context_diff", context="support@2..5")
            del difference["numbers"]
            assert difference == printed("diff", "support@2..5")
            history = await answer(client, "context_history", context="support", item=first)
            assert history["changes"] == printed("audit", "support", "--item", first)
            hits = await answer(client, "context_search", query="lyon")
            assert hits["hits"] == printed("search", "lyon")
            forked = await answer(client, "context_fork", context="support", new="a", turns=1)
            assert {**forked, "context": "b"} == printed("fork", "support", "b", "--turns", "1")
            evicted = await answer(client, "context_evict", context="a", items=["support@5"])
            assert {**evicted, "context": "b"} == printed("evict", "b", "support@5")


async def test_pages_are_of_one_version(store: refold.Store) -> None:
    """They join to the whole context as it was at the first page, whatever was written meanwhile; calls stay tied."""
    chat = store.chat("long")
    for number in range(10):
        chat.add_message("user", f"message {number}")
        chat.add_function_call("f", "{}", call_id=f"c{number}")
        chat.add_function_output("f", "done", call_id=f"c{number}")
    chat.evict([chat.items[3].id])
    whole = [item.id for item in chat.items]
    async with asking(store) as client:
        page = await answer(client, "context_view", context="long", limit=4)
        pages = [page]
        while page["cursor"]:
            chat.add_message("user", "meanwhile")
            page = await answer(client, "context_view", context="long", limit=4, cursor=page["cursor"])
            pages.insert(0, page)
        changes: list[Any] = []
        cursor = None
        while cursor is not None or not changes:
            part = await answer(
                client, "context_history", context=f"long@{pages[0]['version']}", limit=7, cursor=cursor
            )
            changes, cursor = changes + part["changes"], part["cursor"]
        hits = await answer(client, "context_search", query="message", limit=6)
        rest = await answer(client, "context_search", query="message", limit=6, cursor=hits["cursor"])

    shown = [one for page in pages for one in page["items"]]
    assert [one["item"]["id"] for one in shown] == whole
    assert {page["version"] for page in pages} == {chat.version - len(pages) + 1}
    assert not any(one.get("pending") for one in shown)
    assert len(changes) == 32
    assert len({hit["version"] for hit in hits["hits"] + rest["hits"]}) == 10
    assert rest["cursor"] is None


async def test_answers_have_limits(store: refold.Store) -> None:
    """Long texts are cut, and the answer says by how much; a page ends early; too much at once is refused."""
    chat = store.chat("big")
    for _ in range(8):
        chat.add_message("user", "x" * 90_000)
    async with asking(store) as client:
        page = await answer(client, "context_view", context="big")
        assert [one["cut"] for one in page["items"]] == [86_000] * 8
        full = await answer(client, "context_view", context="big", text_max=100_000)
        assert 1 < len(full["items"]) < 8
        assert len(json.dumps(full)) < ANSWER_MAX * 2
        assert "cut" not in full["items"][0]
        many = [{"role": "user", "content": "x"}] * (MESSAGES_MAX + 1)
        assert "give 100 at most" in await fault(client, "context_append", context="big", messages=many)
        long = [{"role": "user", "content": "x" * MESSAGES_TEXT_MAX}]
        assert "1,000,000" in await fault(client, "context_append", context="big", messages=long)
        assert "from 1 to 500" in await fault(client, "context_view", context="big", limit=501)

    assert len(chat.items) == 8


async def test_every_script_has_the_same_limits(store: refold.Store) -> None:
    """A character counts as one, whatever it would be as an escape."""
    said = [{"role": "user", "content": "漢" * (MESSAGES_TEXT_MAX - 100)}]
    async with asking(store) as client:
        await answer(client, "context_append", context="han", messages=said, create=True)
        for _ in range(3):
            store.chat("han").add_message("user", "漢" * 90_000)
        page = await answer(client, "context_view", context="han", text_max=100_000)
    assert len(page["items"]) == 4


async def test_names_are_not_cut(store: refold.Store) -> None:
    """However short the texts shall be: what a short answer names is there, and can be named in the next call."""
    chat = support(store)
    await store.queue("todo").append(ContextItem("call back " * 9, "what the client asked for", "a-key"))
    async with asking(store) as client:
        page = await answer(client, "context_view", context="support", text_max=1)
        assert [one["item"]["id"] for one in page["items"]] == [item.id for item in chat.items]
        assert {one["stream"] for one in page["items"]} == {"chat:support"}
        assert page["items"][-1]["item"]["content"] == ["I"]
        assert page["items"][-1]["cut"] == len("t is in Lyon.")
        [queued] = (await answer(client, "context_view", context="todo", text_max=3))["items"]
        assert (queued["item"]["id"], queued["item"]["description"]) == ("a-key", "wha")
        [*_, left] = (await answer(client, "context_history", context="support", text_max=2))["changes"]
        assert (left["type"], left["item"]["stream"], left["reason"]) == ("chat.items_evicted.v1", "chat:support", "to")


@pytest.mark.parametrize("tool", TOOLS)
async def test_hostile_arguments_are_refused(tool: str) -> None:
    """Whatever stands in any argument: an error says what was wrong, nothing fails, and nothing is changed."""
    with refold.open(":memory:") as store:
        support(store)
        fine: dict[str, Any] = {"context": "support", "query": "Lyon", "item": "@5",
                                "new": "fork", "source": "support", "into": "support", "items": ["@5"],
                                "messages": [{"role": "user", "content": "hello"}]}  # fmt: skip
        before = store.now()
        required = {name: fine[name] for name in TOOLS[tool].required}
        async with asking(store) as client:
            for name in TOOLS[tool].arguments:
                for value in HOSTILE:
                    result = await client.call_tool(tool, {**required, name: value})
                    about = (tool, name, str(value)[:60], result.content)
                    if result.is_error:
                        assert result.structured_content["error"] != "InternalError", about
                        assert store.now() == before, about
                    before = store.now()
            assert "there is no argument 'sql'" in await fault(client, tool, **required, sql="drop table event")
            for name in required:
                rest = {other: value for other, value in required.items() if other != name}
                assert f"the parameter {name} is missing" in await fault(client, tool, **rest)
        assert store.verify(processes=1).problems == ()


async def test_a_search_is_in_the_context_of_a_kind(store: refold.Store) -> None:
    """A name alone means a chat first, as in the other tools; a kind beside it must be that of the context."""
    support(store)
    await store.queue("support").append(ContextItem("order 8"))
    async with asking(store) as client:
        for given, kind in (({}, "chat"), ({"kind": "queue"}, "queue"), ({"kind": "chat"}, "chat")):
            found = await answer(client, "context_search", query="order", context="support", **given)
            assert {hit["kind"] for hit in found["hits"]} == {kind}
        text = await fault(client, "context_search", query="order", context="chat:support", kind="queue")
    assert "there is no queue 'chat:support'" in text


async def test_errors_say_what_to_do(store: refold.Store) -> None:
    """The text is that of the error of the store, and what it advises is something that an agent can do."""
    chat = support(store)
    pinned = chat.items[0].id
    chat.pin([pinned])
    await store.queue("todo").append(ContextItem("call back"))
    said = [{"role": "user", "content": "hello"}]
    async with asking(store) as client:
        texts = [
            await fault(client, "context_view", context="nobody"),
            await fault(client, "context_view", context="support@99"),
            await fault(client, "context_append", context="nobody", messages=said),
            await fault(client, "context_append", context="support@2", messages=said),
            await fault(client, "context_append", context="todo", messages=said),
            await fault(client, "context_append", context="support", messages=said, expected_version=2),
            await fault(client, "context_fork", context="support", new="support"),
            await fault(client, "context_evict", context="support", items=["none"]),
            await fault(client, "context_view", context="support", cursor="next"),
            await fault(client, "context_append", context="support", messages=said, expected_version=99),
            await fault(client, "context_evict", context="support", items=[pinned]),
            await fault(client, "context_view", context="support", evicted="yes"),
            await fault(client, "context_view", context=7),
        ]

    for text, part in zip(texts, ("there is no context 'nobody': the resources list them", "has no version 99",
                                  "the resources list them; `create` makes one",
                                  "is the past", "queue:todo is no chat", "on version 2: look at it with context_view",
                                  "fork under another id", "has no item 'none'", "is no cursor",
                                  "has no version 99 yet", "is pinned: leave it out",
                                  "evicted is 'yes': give true or false",
                                  "context is 7: give a text"), strict=True):  # fmt: skip
        assert part in text
        # An agent cannot call what programs call.
        assert "()" not in text
        assert "(fn)" not in text


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        (
            "context_fork",
            {"context": "support", "new": "n", "turns": 1, "brief": "short"},
            "turns and brief exclude each other",
        ),
        ("context_fork", {"context": "support", "new": "n", "task": "count"}, "task goes with brief"),
        ("context_fork", {"context": "support", "new": "n", "turns": 0}, "turns is 0: it is a number from 1"),
        ("context_fork", {"context": "support", "new": "queue:n"}, "queue:n is no chat: this tool changes chats only"),
        (
            "context_append",
            {"context": "pool:n", "create": True, "messages": [{"role": "user", "content": "hello"}]},
            "pool:n is no chat: this tool changes chats only",
        ),
        ("context_merge", {"source": "support@2", "into": "support"}, "cannot be merged into itself"),
        ("context_merge", {"source": "support", "into": "other", "how": "half"}, "how is 'half': give full or result"),
        ("context_merge", {"source": "support", "into": "other", "on_conflict": "mine"}, "on_conflict is 'mine': give"),
        ("context_diff", {"context": "support"}, "give a range as context, as support@3..5; or two contexts"),
        ("context_view", {"context": "support@1..2"}, "names a range, and one moment is wanted here"),
        ("context_merge", {"source": "support@1..2", "into": "other"}, "names a range, and one moment is wanted here"),
        ("context_diff", {"context": "support", "other": "run:u/s/0/0"}, "a run can be compared with a run only"),
    ],
)
async def test_arguments_that_do_not_go_together(
    store: refold.Store, tool: str, arguments: dict[str, Any], says: str
) -> None:
    """Nothing is done, and the error says what would be."""
    support(store)
    store.chat("other").add_message("user", "hello")
    store.run("u", "s").register_query("Why?")
    before = store.now()
    async with asking(store) as client:
        assert says in await fault(client, tool, **arguments)
    assert store.now() == before


async def test_contexts_are_resources(store: refold.Store) -> None:
    """They are listed page by page, and read at any moment; an address is written in any way that means it."""
    chat = support(store)
    for number in range(150):
        store.chat(f"many {number:03}/ä?#%@".rstrip("@")).add_message("user", "hello")
    async with asking(store) as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        uris = [one.uri for one in first.resources + second.resources]
        for uri in (uris[0], uri_of("chat:support@2"), "ctx://support@2", "ctx://chat:support@before", "ctx://support"):
            if uri.endswith("before"):
                chat.name_version("before")
            [content] = (await client.read_resource(uri)).contents
            shown = json.loads(content.text)
            viewed = await answer(
                client, "context_view", context=f"{shown['kind']}:{shown['context']}@{shown['version']}"
            )
            assert shown == viewed
        for uri in (
            "ctx://",
            "ctx://nobody",
            "ctx://support@99",
            "file:///etc/passwd",
            "ctx://%ff",
            "ctx://support@1..2",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        with pytest.raises(MCPError, match="is no cursor"):
            await client.list_tools(cursor="x")
        with pytest.raises(MCPError, match="'1' is no cursor: this list has one page"):
            await client.list_resource_templates(cursor="1")
        templates = (await client.list_resource_templates()).resource_templates

    assert (len(uris), len(set(uris)), second.next_cursor) == (151, 151, None)
    assert [one.uri_template for one in templates] == ["ctx://{context}", "ctx://{context}@{address}"]


@pytest.mark.parametrize("place", ["memory", "sqlite", "postgres"])
async def test_resources_are_redacted(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Their names, and what an error says, as in the answers of tools."""
    locations = {"memory": ":memory:", "sqlite": str(tmp_path / "hidden.db")}
    location = locations.get(place) or str(request.getfixturevalue("ready_pg_url"))
    with refold.open(location, redact=lambda text: text.replace("mia", "[hidden]")) as store:
        store.chat("of-mia").name_version("mia-asks")
        async with asking(store) as client:
            [listed] = (await client.list_resources()).resources
            with pytest.raises(MCPError) as refused:
                await client.read_resource(f"{uri_of('of-mia')}@nothing")

        for number in range(LISTED):
            store.chat(f"mia-{number}")
        async with asking(store) as client:
            first = await client.list_resources()
            second = await client.list_resources(cursor=first.next_cursor)
            for wrong in ("x", "0", "1.2.3", "999999999"):
                with pytest.raises(MCPError, match=r"no position|not a position|is no cursor"):
                    await client.list_resources(cursor=wrong)

    assert "mia" not in repr([listed, first, second])
    assert (len(first.resources), len(second.resources), second.next_cursor) == (LISTED, 1, None)
    assert "[hidden]-asks" in str(refused.value)
    assert "mia" not in str(refused.value)


@pytest.mark.parametrize("mode", MODES)
async def test_a_hook_that_fails_shows_nothing(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the text that it was to hide, nor its own error, which may have that text in it."""

    def hide(text: str) -> str:
        raise ValueError(f"cannot hide {text}")

    with refold.open(":memory:", redact=hide) as store:
        store.chat("of-mia").add_message("user", "my secret")
        async with asking(store, mode) as client:
            told = [await fault(client, "context_view", context=name) for name in ("of-mia", "nobody-mia")]
            for ask in (client.list_resources, lambda: client.read_resource("ctx://of-mia")):
                with pytest.raises(MCPError) as refused:
                    await ask()
                told.append(str(refused.value))

    assert all("ValueError" in text and "secret" not in text and "mia" not in text for text in told)
    assert "cannot hide" in caplog.text


@pytest.mark.parametrize("mode", MODES)
async def test_a_fault_of_the_server_is_told_without_its_reason(
    store: refold.Store, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason may be a secret: it is in the log of the server, and the type of the fault in the answer."""

    def fail(*_: object, **__: object) -> dict[str, Any]:
        raise ZeroDivisionError("a secret")

    monkeypatch.setitem(TOOLS, "context_view", TOOLS["context_view"]._replace(answer=fail))
    monkeypatch.setattr(type(store), "find_contexts", fail)
    async with asking(store, mode) as client:
        result = await client.call_tool("context_view", {"context": "support"})
        for ask in (client.list_resources, lambda: client.read_resource("ctx://support")):
            with pytest.raises(MCPError) as refused:
                await ask()
            assert "secret" not in str(refused.value)
            assert "ZeroDivisionError" in str(refused.value)

    assert result.is_error
    assert result.structured_content == {
        "error": "InternalError", "message": "the server failed with ZeroDivisionError: its log has the reason",
    }  # fmt: skip
    assert "ZeroDivisionError: a secret" in caplog.text


async def test_a_run_is_shown_as_a_graph(store: refold.Store) -> None:
    """And compared, and its nodes have a history; it is no list of items."""
    run = store.run("mia", "s1")
    query = run.register_query("How many orders?")
    action = run.register_node("Action", "looks", [query], action="read", params={}, output=None, success=True)
    table = run.register_node("Table", "", [action], label="orders", path="/orders.csv")
    version = run.version
    run.modify_node(table, {"path": "/new.csv"})
    name = run.stream_id
    async with asking(store) as client:
        shown = await answer(client, "context_view", context=name)
        difference = await answer(client, "context_diff", context=f"{name}@{version}..{run.version}")
        history = await answer(client, "context_history", context=table, attribute="path")
        refused = await fault(client, "context_diff", context=name, other="run:none")

    assert [node["attributes"]["path"] for node in shown["nodes"] if node["name"] == table] == ["/new.csv"]
    assert [(one["old"], one["new"]) for one in history["changes"]][-1] == ("/orders.csv", "/new.csv")
    assert [one["new"] for one in difference["changed"]] == ["/new.csv"]
    assert "there is no context" in refused


def test_tools_and_resources_ask_who_may() -> None:
    """`allow` is asked with the actor of the server; a refusal is the answer, and a resource is refused as well."""
    asked: list[tuple[str | None, str, str | None]] = []

    def allow(actor: str | None, action: str, context: str | None) -> bool:
        asked.append((actor, action, context))
        return actor is None

    async def use(store: refold.Store) -> str:
        async with asking(store, actor="agent-7") as client:
            with pytest.raises(MCPError, match="may not"):
                await client.read_resource(uri_of("a"))
            with pytest.raises(MCPError, match="may not"):
                await client.list_resources()
            answer = await client.call_tool("context_view", {"context": "a"})
            return str(answer.structured_content["error"])

    with refold.open(":memory:", allow=allow) as store:
        store.chat("a").add_message("user", "secret")

        assert asyncio.run(use(store)) == "NotAllowedError"
    assert {actor for actor, *_ in asked} == {None, "agent-7"}
