"""Runs in the commands that are for contexts of every kind."""

import unicodedata
from pathlib import Path
from typing import Any

import pytest

import refold as package
from refold.domain.log.envelope import NO_META
from refold.domain.log.ports import NewEvents
from refold.domain.spans import Ref
from refold.domain.trajectory.events import (
    PortraitDiscarded,
    PortraitFailed,
    PortraitRequested,
    PortraitWritten,
    RunEvent,
)
from refold.infrastructure.cli.lines import summary_of
from tests.cli.rounds import ACT
from tests.cli.running import refold

HOSTILE = "".join(map(chr, (*range(32), *range(127, 160)))) + "\u202e\u2066\u200b\u2028\ufeff"
FIRST, SECOND = "mia/sales/0/0", "mia/sales/1/0"


def said(*arguments: object, db: Path) -> list[str]:
    """Return what the lines of a log or an audit say behind position, time and context."""
    return [" ".join(line.split()[4:]) for line in refold(*arguments, db=db).out.splitlines()]


def test_they_are_listed_and_counted(sales: Path) -> None:
    """With their nodes; each type of event is counted."""
    lines = refold("contexts", db=sales).out.splitlines()[1:]
    (first, *_) = refold("contexts", "--json", db=sales).json
    stats = refold("stats", "--json", db=sales).json

    assert [line.split()[:4] for line in lines] == [
        [FIRST, "run", "@9", "4"], [SECOND, "run", "@13", "3"], ["mia/sales/1/1", "run", "@2", "1"],
    ]  # fmt: skip
    assert (first["user"], first["session"], first["agent"]) == ("mia", "sales", "analyst")
    assert (stats["contexts"], stats["items"], stats["events"]) == (3, 8, 24)
    assert stats["events_by_type"]["run.node_registered.v1"] == 6


def test_the_log_tells_every_event_in_words(sales: Path) -> None:
    """One line each: which node, from where, what of it."""
    assert said("log", FIRST, db=sales) == [
        "opened user=mia session=sales round=0 sub=0 agent=analyst",
        "query_registered Query(query00000): How many orders?",
        "node_registered Action(action00000), triggers from @2, pointer in the place of @2: looks",
        'node_registered Table(orders (all)), outputs from @3: {"path": "/orders.csv"}',
        "node_registered State(state00000), has_conclusion from @3, pointer in the place of @3: concludes",
        'node_changed @4 description: "" -> all orders; path: /orders.csv -> /new.csv',
        "message_recorded user: How many orders?",
        "message_recorded assistant: There are 7.",
        "closed because: answered",
    ]
    assert said("log", SECOND, db=sales) == [
        "opened user=mia session=sales round=1 sub=0",
        f"rounds_restored run:{FIRST}@9",
        "query_registered Query(query00001): And who ordered?",
        "node_registered Action(action00001), triggers from @3, pointer in the place of @3: reads",
        "node_registered Table(orders (all)), outputs from @4: all orders",
        'node_registered File(x), outputs from @4: {"path": "/x", "source": ""}',
        "node_removed @6, because: it is not there",
        "pointers_moved left @4, joined @5",
        "edge_added @5, asks_for from @3",
        'step_queued todo: count {"by": "day"}',
        "step_queued todo: tell",
        "step_taken todo: @10",
        "named counted = @12",
    ]


def test_the_rarer_events_are_told(sales: Path) -> None:
    """Branches, calls of tools, and steps given back, refused and cleared."""
    with package.open(sales) as store:
        run = store.run("mia", "sales", 2)
        query = run.register_query("More?")
        run.register_node("Action", "", [query], "tries", add_pt=True, **ACT)
        run.register_node("Action", "", [query], "tries", remove_pt=True, **ACT)
        run.remove_node("Action(action00002)")
        call = {"name": "look", "args": {"at": 1}, "id": "c"}
        run.record_messages({"type": "ai", "content": "", "tool_calls": [call]})
        run.steps_max = 1
        run.append_todo("a")
        run.append_todo("b", [1])
        step = run.pop_todo()
        assert step is not None
        run.return_step(step)
        run.clear_steps("todo", "pre")
        run.modify_node("Table(orders (all))#1", {"path": None})

    assert said("log", "mia/sales/2/0", db=sales)[3:] == [
        f"node_registered Action(action00002), tries from @3, pointer: {_JSON}",
        f"node_registered Action(action00003), tries from @3, no pointer any more @3: {_JSON}",
        "node_removed @4, pointers now @3",
        'message_recorded assistant: look({"at": 1})',
        "step_queued todo: a",
        "step_refused todo, which held 1 step already: b [1]",
        "step_taken todo: @8",
        "step_returned todo: @8",
        "steps_cleared todo",
        f"node_changed run:{FIRST}@4 path: /new.csv -> null",
    ]


_JSON = '{"action": "read", "output": null, "params": {"a": 1}, "success": true}'


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (PortraitRequested(node=Ref(3), model="m"), "@3, from m"),
        (PortraitWritten(node=Ref(3, "run:a/b/0/0"), description="It is.", model="m"), "run:a/b/0/0@3, by m: It is."),
        (PortraitWritten(node=Ref(3), description="It is."), "@3: It is."),
        (PortraitFailed(node=Ref(3), error="no answer"), "@3: no answer"),
        (PortraitDiscarded(node=Ref(3), description="It was."), "@3: It was."),
    ],
)
def test_portraits_in_words(event: RunEvent, words: str) -> None:
    """Of which node, by whom, what."""
    assert summary_of(event) == words


def test_portraits_are_audited(sales: Path) -> None:
    """What was asked for and did not come is told as well as what did."""
    table = Ref(4)
    told = (
        PortraitRequested(node=table), PortraitFailed(node=table, error="no answer"), PortraitRequested(node=table),
        PortraitDiscarded(node=table, description="It was."), PortraitWritten(node=table, description="It is."),
    )  # fmt: skip
    with package.open(sales) as store:
        new = NewEvents(stream=f"run:{FIRST}", expected_version=9, events=told, metas=(NO_META,) * 5, root="sales")
        store.log.append([new]).result()

    assert [line.partition(" (all)) ")[2] for line in said("audit", FIRST, db=sales)[-5:]] == [
        "@4 portrait: requested", "@4 portrait (because: no answer): requested -> failed", "@4 portrait: requested",
        "@4 portrait: requested -> discarded", '@4 description: "" -> It is.',
    ]  # fmt: skip


def test_events_as_json(sales: Path) -> None:
    """Nodes are named by the events that registered them; fields and values are the JSON they are."""
    events = {one["version"]: one for one in refold("log", SECOND, "--json", db=sales).json}
    (changed,) = refold("log", FIRST, "--type", "node_changed", "--json", db=sales).json

    assert events[2]["event"] == {"rounds": [{"stream": f"run:{FIRST}", "version": 9}]}
    assert events[5]["event"]["sources"] == [{"stream": f"run:{SECOND}", "version": 4}]
    assert (events[5]["type"], events[5]["event"]["fields"]) == ("run.node_registered.v1", {"path": "/other.csv"})
    assert changed["event"]["changes"][1] == {"name": "path", "old": "/orders.csv", "new": "/new.csv"}


def test_a_round_is_shown(sales: Path) -> None:
    """Its own nodes, with where they come from; its steps and messages."""
    text = refold("show", FIRST, db=sales).out.splitlines()

    assert text[0].startswith(f"run:{FIRST} @9  ")
    assert text[0].endswith("  4 nodes, 1 pointer, 2 messages, closed")
    assert text[1:] == [
        "",
        "@2  Query(query00000)",
        "    description: User query No.00000",
        "    query: How many orders?",
        "",
        "@3  Action(action00000)",
        "    triggers from Query(query00000)",
        "    description: looks",
        "    action: read",
        '    params: {"a": 1}',
        "    success: true",
        "",
        "@4  Table(orders (all))",
        "    outputs from Action(action00000)",
        "    description: all orders",
        "    path: /new.csv",
        "",
        "@5  State(state00000)  (pointer)",
        "    has_conclusion from Action(action00000)",
        "    description: concludes",
        "    state: there are 7",
        "",
        "messages",
        "    user       How many orders?",
        "    assistant  There are 7.",
    ]


def test_a_round_at_a_moment(sales: Path) -> None:
    """As it was, with the rounds that it goes back over."""
    text = refold("show", f"run:{SECOND}@11", db=sales).out.splitlines()

    assert text[0].startswith(f"run:{SECOND} @11 of 13  ")
    assert text[1] == f"goes back over run:{FIRST}@9"
    assert "    continues_to from Table(orders (all))#1, continues_to from State(state00000)" in text
    assert text[-3:] == ["todo", '    @10  count {"by": "day"}', "    @11  tell"]
    assert refold("show", f"{SECOND}@counted", db=sales).out.splitlines()[-1] == "    @11  tell"
    assert refold("show", f"{SECOND}@0", db=sales).out.endswith("before it was opened  0 nodes, 0 pointers\n")


def test_a_round_as_json(sales: Path) -> None:
    """The shape of every context, and what runs have."""
    shape = refold("show", SECOND, "--json", db=sales).json
    first = refold("show", FIRST, "--as", "json", db=sales).json

    assert [shape[field] for field in ("context", "kind", "version", "head", "round", "sub", "closed")] == [
        SECOND, "run", 13, 13, 1, 0, False,
    ]  # fmt: skip
    assert shape["opened"] == {**dict.fromkeys(["agent", "source", "parent", "attributes"]), **OWNER}
    assert shape["goes_back_over"] == [{"stream": f"run:{FIRST}", "version": 9}]
    assert (shape["root"], shape["initial"]) == ("Query(query00000)", "Query(query00001)")
    assert shape["pointers"] == ["Table(orders (all))"]
    assert [node["name"] for node in shape["nodes"]] == [
        "Query(query00001)", "Action(action00001)", "Table(orders (all))",
    ]  # fmt: skip
    assert {**shape["nodes"][2], "created_at": 0} == {
        "name": "Table(orders (all))", "type": "Table", "label": "orders (all)", "stream": f"run:{SECOND}",
        "version": 5, "round": 1, "sub": 0, "created_at": 0, "pointer": True,
        "attributes": {"description": "all orders", "path": "/other.csv"},
    }  # fmt: skip
    assert shape["edges"][-1] == {"source": "Query(query00001)", "target": "Table(orders (all))", "type": "asks_for"}
    assert shape["steps"] == {"pre": [], "todo": [{"name": "tell", "params": {}, "version": 11}], "post": []}
    assert (first["closed"], [one["content"] for one in first["messages"]]) == (
        True, ["How many orders?", "There are 7."],
    )  # fmt: skip


OWNER = {"user": "mia", "session": "sales"}


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            [f"{FIRST}@4..6"],
            [
                "nodes: 1 added, 0 removed, 1 changed; edges: 1 added, 0 removed",
                "+ State(state00000)",
                '~ Table(orders (all)) description: "" -> all orders',
                "~ Table(orders (all)) path: /orders.csv -> /new.csv",
                "+ Action(action00000) -> State(state00000) (has_conclusion)",
                "- pointer Action(action00000)",
                "+ pointer State(state00000)",
            ],
        ),
        (
            [f"{SECOND}@6..7"],
            [
                "nodes: 0 added, 1 removed, 0 changed; edges: 0 added, 1 removed",
                "- File(x)",
                "- Action(action00001) -> File(x) (outputs)",
            ],
        ),
        (
            [FIRST, f"{SECOND}@3"],
            [
                "nodes: 1 added, 0 removed, 0 changed; edges: 2 added, 0 removed",
                "+ Query(query00001)",
                "+ Table(orders (all)) -> Query(query00001) (continues_to)",
                "+ State(state00000) -> Query(query00001) (continues_to)",
                "- pointer State(state00000)",
                "+ pointer Query(query00001)",
            ],
        ),
    ],
)
def test_versions_are_compared(sales: Path, arguments: list[str], lines: list[str]) -> None:
    """Nodes, attributes, edges and pointers; nodes of an earlier round are the same ones."""
    assert [line for line in refold("diff", *arguments, db=sales).out.splitlines() if line][1:] == lines


def test_runs_of_two_sessions_are_compared_by_name(sales: Path) -> None:
    """Two trials of one task have nothing else in common."""
    with package.open(sales) as store:
        again = store.run("mia", "again")
        again.register_node("Action", "looks", [again.register_query("How many orders?")], **{**ACT, "success": False})
    shape = refold("diff", f"{FIRST}@3", "mia/again/0/0", "--json", db=sales).json

    assert shape["changed"] == [{"node": "Action(action00000)", "attribute": "success", "old": True, "new": False}]
    assert (shape["nodes_added"], shape["nodes_removed"], shape["edges_added"]) == ([], [], [])


def test_differences_in_numbers(sales: Path) -> None:
    """The exit code can tell; JSON has nodes as `show` has them."""
    stat = refold("diff", f"{FIRST}@4..6", "--stat", db=sales).out.splitlines()
    numbers = refold("diff", f"{FIRST}@4..6", "--stat", "--json", db=sales).json
    shape = refold("diff", f"{FIRST}@4..6", "--json", db=sales).json

    assert stat[2:] == ["  nodes       +1  -0", "  edges       +1  -0", "  pointers    +1  -1", "  attributes  ~2"]
    assert numbers["from"] == {
        "context": FIRST, "kind": "run", "version": 4, "nodes": 3, "edges": 2, "pointers": 1,
    }  # fmt: skip
    assert (numbers["nodes_added"], numbers["changed"], numbers["pointers_removed"]) == (1, 2, 1)
    assert shape["nodes_added"] == [refold("show", f"{FIRST}@6", "--json", db=sales).json["nodes"][3]]
    assert shape["edges_added"] == [
        {"source": "Action(action00000)", "target": "State(state00000)", "type": "has_conclusion"}
    ]
    assert refold("diff", f"{FIRST}@4..6", "--exit-code", db=sales).code == 1
    assert refold("diff", f"{FIRST}@6..8", "--exit-code", db=sales).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["fork", FIRST, "x"], 1, f"run:{FIRST} is no chat or queue or pool: `refold show run:{FIRST}` is for a run"),
        (["merge", FIRST, "c"], 1, f"run:{FIRST} is no chat or queue or pool: `refold show run:{FIRST}` is for a run"),
        (["evict", FIRST, "@2"], 1, f"run:{FIRST} is no chat: `refold show run:{FIRST}` is for a run"),
        (["restore", FIRST], 1, f"run:{FIRST} is no chat: `refold show run:{FIRST}` is for a run"),
        (["pin", FIRST, "@2"], 1, f"run:{FIRST} is no chat: `refold show run:{FIRST}` is for a run"),
        (["unpin", FIRST, "@2"], 1, f"run:{FIRST} is no chat: `refold show run:{FIRST}` is for a run"),
        (["summarize", FIRST, "--undo"], 1, f"run:{FIRST} is no chat: `refold show run:{FIRST}` is for a run"),
        (["queue", "show", FIRST], 1, f"run:{FIRST} is no queue: `refold show run:{FIRST}` is for a run"),
        (["memory", "show", f"run:{FIRST}"], 1, f"run:{FIRST} is no memory: `refold show run:{FIRST}` is for a run"),
        (["show", FIRST, "--as", "openai"], 2, f"--as openai goes with chats, and this is run:{FIRST}"),
        (["show", FIRST, "--evicted"], 2, f"--evicted goes with items, and this is run:{FIRST}: `refold audit`"),
        (["show", FIRST, "--tail", "3"], 2, f"--tail goes with items, and this is run:{FIRST}: `refold log`"),
        (["diff", FIRST, "c"], 1, f"run:{FIRST} can be compared with a run only"),
        (["fork", "c", "run:x"], 2, "a fork of a chat is a chat, not a run: 'run:x'"),
        (["show", f"{FIRST}@99"], 1, f"run:{FIRST} has no version 99"),
    ],
)
def test_what_is_not_for_runs(sales: Path, arguments: list[Any], code: int, fault: str) -> None:
    """One line says why, and nothing was changed."""
    with package.open(sales) as store:
        store.chat("c").add_message("user", "hello")
    before = refold("log", "--json", db=sales).out
    ended = refold(*arguments, db=sales)

    assert ended.code == code
    assert ended.fault.startswith(fault)
    assert refold("log", "--json", db=sales).out == before


def test_nothing_steers_a_terminal(tmp_path: Path) -> None:
    """Labels, fields, types of edges, steps, messages and reasons are not to be trusted."""
    path, nasty = tmp_path / "x.db", f"before{HOSTILE}after"
    with package.open(path) as store:
        run = store.run("u", "s")
        extra: dict[str, Any] = {nasty: nasty}
        query = run.register_query(nasty, **extra)
        action = run.register_node("Action", nasty, [query], nasty, label=nasty, **ACT)
        run.register_node("Table", nasty, [action], label=nasty, path=nasty)
        run.modify_node(f"Table({nasty})", {"path": nasty + nasty})
        run.append_todo(nasty, {nasty: nasty})
        run.record_messages({"type": "human", "content": nasty})
        run.remove_node(action, reason=nasty)
        run.close(nasty)
    node = f"Table({nasty})".replace("\x00", "")
    commands = [["log"], ["log", "--json"], ["contexts"], ["audit", node], ["audit", node, "--json"]]
    for context in ("run:u/s/0/0", "u/s/0/0@4"):
        commands += [["show", context], ["show", context, "--json"], ["audit", context], ["audit", context, "--json"]]
        commands += [["graph", context, "--as", form] for form in ("text", "json", "dot", "mermaid")]
    commands += [["diff", "u/s/0/0@1.."], ["diff", "u/s/0/0@1..", "--json"], ["graph", nasty.replace("\x00", "")]]

    for arguments in commands:
        ended = refold(*arguments, db=path)
        printed = ended.out + ended.err
        assert {char for char in printed if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} <= {"\n"}, arguments
