"""`refold audit`: what became of the items of a context, who did it, when, and why."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import refold as package
from refold.domain.context.address import Reference
from refold.domain.pool.items import ContextItem
from refold.infrastructure.cli.lines import item_view_in
from tests.cli.running import refold

Place = tuple[str, int]


def told(path: Path, *arguments: str) -> list[str]:
    """Return what an audit says of each change, behind position, time, place and actor."""
    lines = refold("audit", *arguments, db=path).out.splitlines()
    return [" ".join(line.split()[4:]) for line in lines]


def test_changes_of_a_chat(edited: Path) -> None:
    """What came and what left, item by item, with the reason that was given."""
    lines = told(edited, "support")

    assert lines[:3] == [
        "opened user=mia agent=triage", "message_added + @2: system: Be brief.",
        "message_added + @3: user: Where is order 7?",
    ]  # fmt: skip
    for line in (
        "instructions_replaced - @2: system: Be brief.",
        "instructions_replaced + @9: system: Be kind.",
        "items_pinned @3 pinned (because: the question): false -> true",
        "items_evicted - @6 (because: wrong): assistant: It is on its way.",
        "items_evicted - @8 (by truncate): user: Hello.",
        'summarized - @4: lookup({"order": 7})',
        "merged branch@3, 1 item (branch@2), since support@7",
        "merged + branch@2: assistant: It is lost.",
        "conflict_resolved conflict of config (because: the rule 'ours'): ours",
        "cleared - branch@2 (because: over): assistant: It is lost.",
    ):
        assert line in lines
    assert lines[-1] == "items_restored + @3: user: Where is order 7?"


def test_changes_of_a_queue(stocked: Path) -> None:
    """Among them what made room."""
    assert told(stocked, "notes") == [
        "opened limit=3 tags=tea",
        "appended + @2: Mia drinks tea.",
        'appended + @3: {"cups": 2}',
        'appended + @4: {"cups": 3}',
        "evicted - @2 (to make room): Mia drinks tea.",
        "appended + @6: She has a cat.",
    ]


def test_changes_of_a_pool(stocked: Path) -> None:
    """An item that took the place of another is shown with what was there before."""
    assert told(stocked, "docs") == [
        "opened",
        "added + readme @2: Read me first.",
        'added + faq @3: {"q": "why?"}',
        "replaced ~ readme @4: Read me first. -> Read me now.",
        'removed - faq @3 (because: too long): {"q": "why?"}',
    ]


def test_changes_of_a_window(stocked: Path) -> None:
    """What was not let in is told with why."""
    opened, added, dropped, replaced = told(stocked, "prompt")

    assert opened == "opened max_tokens=40 policy=first_come"
    assert added == "added + rules @2: Be brief."
    assert dropped.startswith("dropped book @3 dropped (because: with it 141 tokens, and 40 are allowed): word word")
    assert replaced == "replaced ~ rules @4: Be brief. -> Be kind."


@pytest.mark.parametrize(
    ("policy", "names"),
    [("first_come", "max_tokens user policy"), ("evict_lower_priority", "max_tokens policy user")],
)
def test_how_a_window_was_opened_in_json(tmp_path: Path, policy: Any, names: str) -> None:
    """The policy comes last if it is the usual one: readers of lines compare them."""
    with package.open(tmp_path / "store.db") as store:
        store.window("prompt", max_tokens=40, policy=policy, user="mia")
        [entry] = store.audit("window:prompt")

    assert " ".join(entry.new) == names


def test_changes_of_a_memory(stocked: Path) -> None:
    """From what to what, key by key."""
    assert told(stocked, "mia") == [
        "remembered + tea @1: green",
        'remembered + cups @2: {"a day": 2}',
        "remembered ~ tea @3: green -> black",
        'forgotten - cups @2 (because: she stopped): {"a day": 2}',
    ]


def test_settings_and_names_are_changes_too(stocked: Path) -> None:
    """Of the context itself, from what to what."""
    with package.open(stocked) as store:
        queue, window = store.queue("notes"), store.window("prompt")
        asyncio.run(queue.change_settings(limit=5, tags=[]))
        pool = store.pool("docs")
        asyncio.run(pool.change_settings(limit=2))
        with package.acting(because=queue.recorded_events()[-1]):
            asyncio.run(pool.change_settings(limit=None))
        queue.name_version("good", 2)
        queue.name_version("good", 3)
        window.max_tokens = 50

    assert told(stocked, "notes")[-4:] == [
        "settings_changed limit: 3 -> 5", 'settings_changed tags: ["tea"] -> []', "named name good: 2",
        "named name good: 2 -> 3",
    ]  # fmt: skip
    assert told(stocked, "docs")[-2:] == [
        "settings_changed limit: 2", "settings_changed limit (follows from queue:notes@7): 2 -> none",
    ]  # fmt: skip
    assert told(stocked, "prompt")[-1] == "settings_changed max_tokens: 40 -> 50"
    limit = refold("audit", "notes", "--json", db=stocked).json[-4]
    assert (limit["item"], limit["attribute"], limit["old"], limit["new"]) == (None, "limit", 3, 5)


def test_who_and_why(stocked: Path) -> None:
    """The actor, the trace, and the event that a change followed from."""
    with package.open(stocked) as store:
        cause = store.queue("notes").recorded_events()[-1]
        with package.acting(actor="tom", correlation_id="t1", because=cause):
            asyncio.run(store.pool("docs").add(ContextItem("Tom.", "A cat", "cat")))
    (change,) = refold("audit", "docs", "--item", "cat", "--json", db=stocked).json

    assert told(stocked, "docs")[-1] == "added + cat @6 (follows from queue:notes@6): Tom."
    assert change.pop("recorded_at").endswith("Z")
    assert change == {
        "position": "20", "stream": "pool:docs", "version": 6, "actor": "tom", "correlation_id": "t1",
        "causation": "queue:notes@6", "type": "pool.added.v1",
        "item": {"stream": "pool:docs", "version": 6, "id": "cat"}, "attribute": None, "old": None,
        "new": {"id": "cat", "description": "A cat", "content": "Tom.", "content_type": None}, "reason": None,
    }  # fmt: skip


def test_the_changes_by_one_actor(stocked: Path) -> None:
    """Of a context, or of a node; also together with an item."""
    with package.open(stocked) as store, package.acting(actor="tom"):
        asyncio.run(store.pool("docs").add(ContextItem("Tom.", "A cat", "cat")))
        run = store.run("mia", "s9")
        run.register_node("State", "", [run.register_query("?")], state="1")
    with package.open(stocked) as store, package.acting(actor="eve"):
        store.run("mia", "s9").modify_node("State(state00000)", {"state": "2"})

    every = refold("audit", "docs", "--json", db=stocked).json
    by_tom = refold("audit", "docs", "--who", "tom", "--json", db=stocked).json
    assert by_tom == [change for change in every if change["actor"] == "tom"]
    assert [change["item"]["id"] for change in by_tom] == ["cat"]
    changed = refold("audit", "State(state00000)", "--who", "eve", "--attr", "state", "--json", db=stocked).json
    assert [(change["actor"], change["new"]) for change in changed] == [("eve", "2")]
    for subject, entries in (
        ("docs", every),
        ("State(state00000)", refold("audit", "State(state00000)", "--json", db=stocked).json),
    ):
        *_, before, last = dict.fromkeys(entry["recorded_at"] for entry in entries)
        for moment in (before, [entry["position"] for entry in entries if entry["recorded_at"] == before][-1]):
            found = refold("audit", subject, "--after", moment, "--json", db=stocked).json
            assert found == [entry for entry in entries if entry["recorded_at"] == last]
    assert refold("audit", "docs", "--who", "eve", db=stocked).fault.startswith("'eve' changed nothing of pool:docs: ")
    assert (
        "'me' changed nothing of State(state00000): its changes are by eve"
        in refold("audit", "State(state00000)", "--who", "me", db=stocked).fault
    )


@pytest.mark.parametrize(
    ("context", "item", "versions"),
    [
        ("support", "first", [3, 10, 11, 14, 15, 16, 17, 20, 21]),
        ("support", "@3", [3, 10, 11, 14, 15, 16, 17, 20, 21]),
        ("support", "branch@2", [18, 20]),
        ("support", "chat:branch@2", [18, 20]),
        ("support@14", "first", [3, 10, 11, 14]),
    ],
)
def test_one_item_alone(edited: Path, context: str, item: str, versions: list[int]) -> None:
    """By its id or its place; up to a version."""
    assert [one["version"] for one in refold("audit", context, "--item", item, "--json", db=edited).json] == versions


def test_one_key_alone(stocked: Path) -> None:
    """Whatever was remembered under it."""
    changes = refold("audit", "mia", "--item", "tea", "--json", db=stocked).json

    assert [(one["old"] and one["old"]["value"], one["new"]["value"]) for one in changes] == [
        (None, "green"), ("green", "black"),
    ]  # fmt: skip


def there_at_last(changes: Iterable[dict[str, Any]], begins_with: set[Place]) -> set[Place]:
    """Return where the items were added that are there after changes."""
    there: dict[Place, str | None] = dict.fromkeys(begins_with)
    for change in changes:
        item = change["item"]
        if item is None or change["attribute"] is not None:
            continue
        place = (item["stream"], item["version"])
        if change["new"] is None:
            del there[place]
            continue
        if change["old"] is not None:
            del there[next(old for old, name in there.items() if name == item["id"])]
        there[place] = item["id"]
    return set(there)


def shown_at(store: package.Store, kind: str, stream: str, version: int) -> set[tuple[str, int]]:
    """Return where the items were added that a context shows at a version."""
    view = item_view_in(store, Reference(stream), str(version), kind)
    return {(one.recorded.stream, one.recorded.version) for one in view.entries()}


@pytest.mark.parametrize("kind", ["edited", "stocked"])
def test_the_changes_add_up_to_what_is_shown(kind: str, request: pytest.FixtureRequest) -> None:
    """Of every context at every version: nothing is overlooked, nothing told twice."""
    path: Path = request.getfixturevalue(kind)
    for row in refold("contexts", "--json", db=path).json:
        stream = f"{row['kind']}:{row['id']}"
        changes = refold("audit", stream, "--json", db=path).json
        with package.open(path) as store:
            seen = [shown_at(store, row["kind"], stream, version) for version in range(row["version"] + 1)]
        inherited = seen[1] if row["parent"] else set()
        for version in range(1, row["version"] + 1):
            until = [change for change in changes if change["version"] <= version]
            assert there_at_last(until, inherited) == seen[version], (stream, version)


def test_a_fork_has_its_own_changes(stocked: Path) -> None:
    """Those before are its parent's; what it began with can leave."""
    refold("fork", "docs", "copy", db=stocked)
    refold("pool", "add", "copy", "readme", "Mine.", "--description", "R", db=stocked)
    refold("fork", "notes", "mine", db=stocked)
    refold("queue", "remove", "mine", "queue:notes@3", db=stocked)
    refold("queue", "restore", "mine", "queue:notes@3", db=stocked)

    assert told(stocked, "copy") == [
        "branched from pool:docs@5, 1 item", "replaced ~ readme @2: Read me now. -> Mine.",
    ]  # fmt: skip
    assert told(stocked, "mine")[1:] == [
        'evicted - queue:notes@3: {"cups": 2}', 'restored + queue:notes@3: {"cups": 2}',
    ]  # fmt: skip


def test_a_merge_of_pools_is_told(stocked: Path) -> None:
    """What took whose place, what left, and who won where both had changed the same."""
    refold("fork", "docs@4", "copy", db=stocked)
    refold("pool", "remove", "copy", "faq", db=stocked)
    refold("pool", "add", "copy", "readme", "Mine.", "--description", "R", db=stocked)
    refold("pool", "add", "docs", "readme", "Ours.", "--description", "R", db=stocked)
    refold("merge", "copy", "docs", "--on-conflict", "theirs", db=stocked)

    assert told(stocked, "docs")[-3:] == [
        "conflict_resolved readme pool:copy@3 conflict (because: the rule 'theirs'): theirs",
        "merged pool:copy@3, 1 item (pool:copy@3) taken, since pool:docs@4",
        "merged ~ readme pool:copy@3: Ours. -> Mine.",
    ]


def test_lines_end_at_the_edge(stocked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was before is cut shorter, so that what is now is seen."""
    for text in ("old " * 50, "new " * 50):
        refold("memory", "add", "mia", "long", text, db=stocked)
    monkeypatch.setenv("COLUMNS", "140")
    *_, last = refold("audit", "mia", db=stocked).out.splitlines()

    assert len(last) <= 140
    assert "old…" in last
    assert "-> new new" in last


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["nobody"], 1, "there is no context 'nobody': `refold contexts` lists them"),
        (["do"], 1, "there is no context 'do': did you mean docs? `refold contexts` lists them"),
        (["docs@9"], 1, "pool:docs has no version 9"),
        (["docs", "--item", "tea"], 1, "pool:docs never had an item 'tea': `refold audit pool:docs` lists all changes"),
        (["docs@1..2"], 2, "Invalid value for 'CTX[@V]|NODE': 'docs@1..2' names a range"),
        (["docs", "--item", ""], 2, "Invalid value for '--item': it is empty"),
        ([], 2, "Missing argument 'CTX[@V]|NODE'"),
    ],
)
def test_what_cannot_be_audited(stocked: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line says why."""
    ended = refold("audit", *arguments, db=stocked)

    assert ended.code == code
    assert ended.fault.startswith(fault)
