"""Queues, pools, windows and memories in the commands that are for contexts of every kind."""

import asyncio
import unicodedata
from pathlib import Path
from typing import Any

import pytest

import refold as package
from refold.domain.memory.records import MemoryRecord
from refold.domain.pool.items import ContextItem
from refold.domain.window.items import ContextItem as WindowItem
from tests.cli.running import refold

HOSTILE = "".join(map(chr, (*range(32), *range(127, 160)))) + "\u202e\u2066\u200b\u2028\ufeff"


def test_they_are_listed_and_counted(stocked: Path) -> None:
    """With their kinds; each type of event is counted."""
    lines = refold("contexts", db=stocked).out.splitlines()[1:]
    stats = refold("stats", "--json", db=stocked).json

    assert [line.split()[:4] for line in lines] == [
        ["mia", "memory", "@4", "1"], ["docs", "pool", "@5", "1"], ["notes", "queue", "@6", "3"],
        ["prompt", "window", "@4", "1"],
    ]  # fmt: skip
    assert (stats["contexts"], stats["items"], stats["events"]) == (4, 6, 19)
    assert stats["events_by_type"]["queue.appended.v1"] == 4


def test_the_log_tells_every_event_in_words(stocked: Path) -> None:
    """One line each: what, how many, why."""
    lines = refold("log", db=stocked).out.splitlines()

    assert [" ".join(line.split()[2:]) for line in lines if "window:prompt@3" not in line] == [
        "queue:notes@1 mia opened limit=3 tags=tea",
        "queue:notes@2 mia appended Mia drinks tea.",
        'queue:notes@3 mia appended {"cups": 2}',
        'queue:notes@4 mia appended {"cups": 3}',
        "queue:notes@5 mia evicted 1 item (@2), about 6 tokens, to make room",
        "queue:notes@6 mia appended She has a cat.",
        "pool:docs@1 mia opened",
        "pool:docs@2 mia added readme: The readme",
        "pool:docs@3 mia added faq: Questions",
        "pool:docs@4 mia replaced readme, in the place of @2: The new readme",
        "pool:docs@5 mia removed faq (@3), about 5 tokens, because: too long",
        "window:prompt@1 mia opened max_tokens=40 policy=first_come",
        "window:prompt@2 mia added rules: Be brief.",
        "window:prompt@4 mia replaced rules, in the place of 1 item (@2): Be kind.",
        "memory:mia@1 mia remembered tea: green",
        'memory:mia@2 mia remembered cups: {"a day": 2}',
        "memory:mia@3 mia remembered tea, in the place of @1: black",
        "memory:mia@4 mia forgotten 1 record (@2), because: she stopped",
    ]
    assert " dropped  " in lines[13]
    assert " book, not let in (with it 141 tokens, and 40 are allowed): word word" in lines[13]


@pytest.mark.parametrize("name", ["queue:notes", "pool:docs", "window:prompt", "memory:mia"])
def test_a_named_version_is_shown(stocked: Path, name: str) -> None:
    """Under its name, as under its number; a name that there is not is an error that lists those that there are."""
    kind, _, context_id = name.partition(":")
    with package.open(stocked) as store:
        context = store.memory().scope(context_id) if kind == "memory" else getattr(store, kind)(context_id)
        context.name_version("early", 3)

    named = refold("show", f"{name}@early", db=stocked)
    assert (named.code, named.out) == (0, refold("show", f"{name}@3", db=stocked).out)
    assert "names: early" in refold("show", f"{name}@late", db=stocked).fault


def test_the_rarer_events_are_told(stocked: Path) -> None:
    """Settings, names, what came back, what was cleared, what was branched and merged."""
    refold("queue", "restore", "notes", "@2", db=stocked)
    with package.open(stocked) as store:
        asyncio.run(_change_containers(store))
        window, memory = store.window("prompt"), store.memory().scope("mia")
        window.restore("window:prompt@2")
        window.evict("window:prompt@2", reason="again")
        window.clear()
        window.max_tokens = 99
        window.name_version("good", 2)
        memory.restore("cups")
        memory.name_version("good", 2)
    lines = refold("log", "--after", 19, db=stocked).out.splitlines()

    assert [" ".join([line.split()[2], *line.split()[4:]]) for line in lines] == [
        "queue:notes@7 evicted 1 item (@3), about 2 tokens, to make room",
        "queue:notes@8 restored 1 item (queue:notes@2), about 6 tokens",
        "queue:notes@9 settings_changed limit=9",
        "queue:notes@10 cleared 3 items, about 11 tokens",
        "queue:notes@11 named good = @2",
        "pool:copy@1 branched from pool:docs@5, 1 item, limit=5",
        "pool:copy@2 replaced readme, in the place of pool:docs@4: R",
        "pool:docs@6 merged pool:copy@2, 1 item (pool:copy@2) taken, since pool:docs@5",
        "window:prompt@5 restored 1 item (window:prompt@2), about 9 tokens",
        "window:prompt@6 evicted 1 item (@2), about 9 tokens, because: again",
        "window:prompt@7 cleared 1 item, about 9 tokens",
        "window:prompt@8 settings_changed max_tokens=99 policy=first_come",
        "window:prompt@9 named good = @2",
        "memory:mia@5 restored 1 record (memory:mia@2)",
        "memory:mia@6 named good = @2",
    ]


async def _change_containers(store: package.Store) -> None:
    queue, pool = store.queue("notes"), store.pool("docs")
    await queue.change_settings(limit=9, tags=[])
    await queue.clear()
    queue.name_version("good", 2)
    copy = pool.branch(5, context_id="copy")
    await copy.add(ContextItem("Mine.", "R", "readme"))
    await pool.merge(copy)


@pytest.mark.parametrize(
    ("arguments", "positions"),
    [
        (["--type", "evicted"], [5]),
        (["--type", "opened"], [1, 7, 12]),
        (["--type", "pool.opened", "--type", "memory.forgotten.v1"], [7, 19]),
        (["notes@2"], [1, 2]),
        (["window:prompt", "--after", 13], [14, 15]),
        (["mia@-2"], [16, 17]),
        (["docs@pos:9"], [7, 8, 9]),
    ],
)
def test_the_log_is_narrowed(stocked: Path, arguments: list[Any], positions: list[int]) -> None:
    """By type and context, as with chats."""
    assert [int(one["position"]) for one in refold("log", *arguments, "--json", db=stocked).json] == positions


def test_events_as_json(stocked: Path) -> None:
    """Contents are texts, or JSON beside the class; items are named as everywhere."""
    events = {f"{one['stream']}@{one['version']}": one for one in refold("log", "--json", db=stocked).json}

    assert events["queue:notes@2"]["event"] == {"content": {"text": "Mia drinks tea."}, "description": "about Mia"}
    assert events["queue:notes@4"]["event"]["content"] == {"json": {"cups": 3}, "type": "elsewhere:Note"}
    assert events["queue:notes@5"]["event"]["items"] == [{"stream": "queue:notes", "versions": [[2, 2]]}]
    assert events["pool:docs@4"]["event"]["old"] == {"stream": "pool:docs", "version": 2}
    assert events["memory:mia@3"]["event"]["replaced"] == {"stream": "memory:mia", "version": 1}
    assert (events["pool:docs@5"]["type"], events["pool:docs@5"]["event"]["reason"]) == ("pool.removed.v1", "too long")


def test_new_events_are_followed(stocked: Path) -> None:
    """Of one context of whichever kind."""
    ended = refold("log", "notes", "--follow", "--limit", 6, db=stocked)

    assert (ended.code, len(ended.out.splitlines())) == (0, 6)


def test_a_window_is_shown(stocked: Path) -> None:
    """Keys, texts, sources and priorities; what was not let in is among what is not there."""
    text = [line for line in refold("show", "prompt@2", db=stocked).out.splitlines() if line]
    shown = refold("show", "window:prompt", "--json", db=stocked).json
    left = refold("show", "prompt", "--evicted", "--json", db=stocked).json["items"]

    assert text[0].startswith("window:prompt @2 of 4  ")
    assert text[1:] == ["@2  rules      Be brief.", "               (from app, priority 5)"]
    assert (shown["max_tokens"], shown["policy"]) == (40, "first_come")
    assert [one["item"] for one in shown["items"]] == [
        {"key": "rules", "value": "Be kind.", "source": "mia", "priority": 0}
    ]
    assert [(one["item"]["key"], one["left"]["how"], one["left"]["version"]) for one in left] == [
        ("rules", "replace", 4), ("book", "drop", 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["notes@2..3"], ["1 added, 0 removed, 0 changed; tokens 6 -> 8 (+2)", '+ @3  json       {"cups": 2}']),
        (["notes@4..5"], ["0 added, 1 removed, 0 changed; tokens 10 -> 4 (-6)", "- @2  text       Mia drinks tea."]),
        (
            ["docs@2..4"],
            [
                "1 added, 0 removed, 1 changed; tokens 6 -> 11 (+5)",
                '+ @3  faq        {"q": "why?"}',
                "< @2  readme     Read me first.",
                "> @4  readme     Read me now.",
            ],
        ),
        (
            ["prompt@2", "window:prompt"],
            [
                "0 added, 0 removed, 1 changed; tokens 9 -> 9 (+0)",
                "< @2  rules      Be brief.",
                "> @4  rules      Be kind.",
            ],
        ),
        (
            ["mia@1..3"],
            [
                "1 added, 0 removed, 1 changed; tokens 2 -> 5 (+3)",
                '+ @2  cups       {"a day": 2}',
                "< @1  tea        green",
                "> @3  tea        black",
            ],
        ),
    ],
)
def test_versions_are_compared(stocked: Path, arguments: list[str], lines: list[str]) -> None:
    """Items added, gone and replaced; under one id or key an item may say something else."""
    out = refold("diff", *arguments, db=stocked).out

    assert [line for line in out.splitlines() if line][1:] == lines


def test_differences_in_numbers(stocked: Path) -> None:
    """By what the items are; the exit code can tell; JSON has items as `show` has them."""
    stat = refold("diff", "docs@2..4", "--stat", db=stocked).out.splitlines()
    (change,) = refold("diff", "docs@2..4", "--json", db=stocked).json["changed"]

    assert stat[2:] == ["  json  +1  -0  ~0", "  text  +0  -0  ~1"]
    assert (change["from"]["item"]["content"], change["to"]["item"]["content"]) == ("Read me first.", "Read me now.")
    assert refold("diff", "docs@4..5", "--exit-code", db=stocked).code == 1
    assert refold("diff", "notes@6", "notes", "--exit-code", db=stocked).code == 0


def test_what_comes_back_is_moved(stocked: Path) -> None:
    """It is the item that it was; another one that says the same is not."""
    numbers = ("added", "removed", "changed", "moved")
    refold("queue", "remove", "notes", "@3", db=stocked)
    refold("queue", "add", "notes", '{"cups": 2}', "--parse", db=stocked)
    another = refold("diff", "notes@6..", "--json", "--stat", db=stocked).json
    refold("queue", "remove", "notes", "@8", db=stocked)
    refold("queue", "restore", "notes", "@3", db=stocked)
    back = refold("diff", "notes@6..", "--json", "--stat", db=stocked).json

    assert [another[name] for name in numbers] == [1, 1, 0, 0]
    assert [back[name] for name in numbers] == [0, 0, 0, 1]


def test_two_kinds_with_one_id(stocked: Path) -> None:
    """The kind in front says which; without it the command asks."""
    with package.open(stocked) as store:
        store.chat("docs").add_message("user", "hello")

    assert refold("diff", "docs@1..2", db=stocked).fault == (
        "'docs' can mean chat:docs or pool:docs: write it with its kind in front"
    )
    assert refold("show", "chat:docs", db=stocked).out.startswith("chat:docs @2")
    assert refold("show", "pool:docs", db=stocked).out.startswith("pool:docs @5")
    assert refold("pin", "docs", "@2", db=stocked).out == "chat:docs @3: 1 item pinned now\n"


@pytest.mark.parametrize("kind", ["queue", "pool", "window"])
def test_a_named_version_is_an_address(tmp_path: Path, kind: str) -> None:
    """As of a chat."""
    path = tmp_path / "x.db"
    with package.open(path) as store:
        context = getattr(store, kind)("a")
        context.name_version("start", 1)

    assert refold("show", f"{kind}:a@start", db=path).out.startswith(f"{kind}:a @1 of 2  ")
    assert "never" in refold("show", f"{kind}:a@never", db=path).fault


def test_nothing_steers_a_terminal(tmp_path: Path) -> None:
    """Contents, ids, keys, sources, tags and reasons are not to be trusted."""
    path, nasty = tmp_path / "x.db", f"before{HOSTILE}after"
    with package.open(path) as store:
        asyncio.run(_fill(store, nasty))
        store.window("w").add(WindowItem(nasty, nasty, nasty))
        # A scope's name may take as many bytes as an id.
        named = nasty[-20:]
        memory = store.memory().scope(named)
        memory.put(MemoryRecord(scope=named, key=nasty, value={nasty: nasty}, tags=[nasty]))
        memory.put(MemoryRecord(scope=named, key="k", value=nasty))
        memory.forget("k", reason=nasty)
        scope = memory.id
    commands = [["log"], ["log", "--json"], ["contexts"]]
    for context in ("queue:q", "pool:p", "window:w", f"memory:{scope}"):
        commands += [["show", context, "--ids"], ["show", context, "--evicted"], ["show", context, "--json"]]
        commands += [["audit", context], ["audit", context, "--json"], ["diff", f"{context}@.."]]
        commands += [["diff", f"{context}@..", "--stat"]]
    commands += [["pool", "show", "p", nasty.replace("\x00", "")], ["memory", "restore", scope, "k"]]

    for arguments in commands:
        ended = refold(*arguments, db=path)
        said = ended.out + ended.err
        assert {char for char in said if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} <= {"\n"}, arguments


async def _fill(store: package.Store, nasty: str) -> None:
    queue, pool = store.queue("q", limit=1, tags=[nasty]), store.pool("p")
    await queue.append(ContextItem(nasty, nasty, nasty), ContextItem({nasty: nasty}))
    await pool.add(ContextItem(nasty, nasty, nasty))
    await pool.add(ContextItem(nasty, nasty, "gone"))
    await pool.remove("gone", reason=nasty)
