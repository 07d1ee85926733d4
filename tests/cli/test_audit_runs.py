"""`refold audit` of runs and of their nodes."""

from pathlib import Path
from typing import Any

import pytest

import refold as package
from tests.cli.rounds import ACT
from tests.cli.running import refold
from tests.cli.test_runs import FIRST, SECOND, said

TABLE = "Table(orders (all))"


def test_every_change_of_a_run_is_told(sales: Path) -> None:
    """Nodes with edges and pointers, steps, and the run itself."""
    assert said("audit", SECOND, db=sales) == [
        "opened user=mia session=sales round=1 sub=0",
        f'rounds_restored rounds: ["run:{FIRST}@9"]',
        "query_registered + Query(query00001) @3: "
        '{"description": "User query No.00001", "additional_files": [], "query": "And who ordered?"}',
        "query_registered Query(query00001) @3 pointer: false -> true",
        "node_registered + Action(action00001) @4: "
        '{"description": "reads", "action": "read", "output": null, "params": {"a": 1}, "success": true}',
        "node_registered Action(action00001) @4 edge from Query(query00001): triggers",
        "node_registered Query(query00001) @3 pointer: true -> false",
        "node_registered Action(action00001) @4 pointer: false -> true",
        f'node_registered + {TABLE} @5: {{"description": "all orders", "path": "/other.csv"}}',
        f"node_registered {TABLE} @5 edge from Action(action00001): outputs",
        'node_registered + File(x) @6: {"description": "", "path": "/x", "source": ""}',
        "node_registered File(x) @6 edge from Action(action00001): outputs",
        'node_removed - File(x) @6 (because: it is not there): {"description": "", "path": "/x", "source": ""}',
        "pointers_moved Action(action00001) @4 pointer: true -> false",
        f"pointers_moved {TABLE} @5 pointer: false -> true",
        f"edge_added {TABLE} @5 edge from Query(query00001): asks_for",
        'step_queued + count @10: {"queue": "todo", "name": "count", "params": {"by": "day"}}',
        'step_queued + tell @11: {"queue": "todo", "name": "tell", "params": null}',
        'step_taken - count @10: {"queue": "todo", "name": "count", "params": {"by": "day"}}',
        "named name counted: 12",
    ]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            [FIRST, "--item", TABLE],
            [
                f'node_registered + {TABLE} @4: {{"description": "", "path": "/orders.csv"}}',
                f"node_registered {TABLE} @4 edge from Action(action00000): outputs",
                f'node_changed {TABLE} @4 description: "" -> all orders',
                f"node_changed {TABLE} @4 path: /orders.csv -> /new.csv",
            ],
        ),
        ([FIRST, "--item", "@4", "--attribute", "path"], [f"node_changed {TABLE} @4 path: /orders.csv -> /new.csv"]),
        ([FIRST, "--attribute", "closed"], ["closed closed (because: answered): false -> true"]),
        (
            [f"{SECOND}@11", "--item", "tell"],
            ['step_queued + tell @11: {"queue": "todo", "name": "tell", "params": null}'],
        ),
        ([FIRST, "--item", "@8"], ["message_recorded + @8: assistant: There are 7."]),
    ],
)
def test_parts_of_a_run(sales: Path, arguments: list[str], lines: list[str]) -> None:
    """A node, a step or a message by its name or place; an attribute."""
    assert said("audit", *arguments, db=sales) == lines


def test_the_changes_add_up_to_what_is_shown(sales: Path) -> None:
    """At every version: nodes, their attributes, and pointers."""
    for run in (FIRST, SECOND):
        for version in range(1, refold("show", run, "--json", db=sales).json["version"] + 1):
            shown = refold("show", f"{run}@{version}", "--json", db=sales).json
            there, pointers = _there(refold("audit", f"{run}@{version}", "--json", db=sales).json)

            assert there == {node["version"]: node["attributes"] for node in shown["nodes"]}
            assert pointers == {node["version"] for node in shown["nodes"] if node["pointer"]}


def _there(changes: list[dict[str, Any]]) -> tuple[dict[int, Any], set[int]]:
    there: dict[int, Any] = {}
    pointers: set[int] = set()
    for change in changes:
        item, attribute = change["item"], change["attribute"]
        if item is None or "(" not in (item["id"] or ""):
            continue
        if attribute == "pointer":
            (pointers.add if change["new"] else pointers.discard)(item["version"])
        elif attribute is None and change["new"] is None:
            del there[item["version"]]
        elif attribute is None:
            there[item["version"]] = dict(change["new"])
        elif attribute in there[item["version"]]:
            assert there[item["version"]][attribute] == change["old"]
            there[item["version"]][attribute] = change["new"]
    return there, pointers


def test_nodes_of_earlier_rounds(sales: Path) -> None:
    """They are changed and removed here, and were born elsewhere."""
    with package.open(sales) as store:
        run = store.run("mia", "sales", 2)
        run.register_query("More?")
        run.modify_node("State(state00000)", {"state": "there are 8"})
        run.remove_node("State(state00000)", reason="doubted")

    assert said("audit", "mia/sales/2/0", db=sales)[-2:] == [
        f"node_changed State(state00000) run:{FIRST}@5 state: there are 7 -> there are 8",
        f"node_removed - State(state00000) run:{FIRST}@5 (because: doubted): "
        '{"description": "concludes", "state": "there are 8"}',
    ]


def test_a_node_in_all_its_rounds(sales: Path) -> None:
    """Attribute by attribute, with what it was registered with; met again it has what was given anew."""
    assert said("audit", TABLE, db=sales) == [
        f'node_registered {TABLE} @4 description: ""',
        f"node_registered {TABLE} @4 path: /orders.csv",
        f'node_changed {TABLE} @4 description: "" -> all orders',
        f"node_changed {TABLE} @4 path: /orders.csv -> /new.csv",
        f"node_registered {TABLE} @5 path: /new.csv -> /other.csv",
    ]
    assert said("audit", "File(x)", "--attribute", "path", db=sales) == [
        "node_registered File(x) @6 path: /x",
        "node_removed File(x) @6 path (because: it is not there): /x -> none",
    ]


def test_a_node_as_json(sales: Path) -> None:
    """The shape of every audit; causes and reasons are there."""
    with package.open(sales) as store, package.acting(actor="tom", because=f"run:{SECOND}@7", correlation_id="c"):
        store.run("mia", "sales", 1).modify_node(TABLE, {"path": "/last.csv"})
    *_, last = refold("audit", TABLE, "--attribute", "path", "--json", db=sales).json

    assert {**last, "position": "", "recorded_at": ""} == {
        "position": "", "stream": f"run:{SECOND}", "version": 14, "recorded_at": "", "actor": "tom",
        "correlation_id": "c", "causation": f"run:{SECOND}@7", "type": "run.node_changed.v1",
        "item": {"stream": f"run:{SECOND}", "version": 5, "id": TABLE},
        "attribute": "path", "old": "/other.csv", "new": "/last.csv", "reason": None,
    }  # fmt: skip
    assert f"follows from run:{SECOND}@7" in refold("audit", TABLE, db=sales).out.splitlines()[-1]


def test_several_nodes_of_one_name(sales: Path) -> None:
    """An error names them; the options say which is meant."""
    with package.open(sales) as store:
        run = store.run("tom", "z")
        action = run.register_node("Action", "l", [run.register_query("?")], **ACT)
        run.register_node("Table", "", [action], label="orders (all)", path="/toms")

    assert refold("audit", TABLE, db=sales).fault == (
        f"there is {TABLE!r} in session 'sales' of 'mia', session 'z' of 'tom': say which with --session and --user"
    )
    assert refold("audit", "Query(query00000)", db=sales).fault == (
        f"there is 'Query(query00000)' in {FIRST}, mia/sales/1/1, tom/z/0/0: "
        "say which with --session, --user, --round and --sub"
    )
    assert said("audit", TABLE, "--user", "tom", "--attribute", "path", db=sales) == [
        f"node_registered {TABLE} @4 path: /toms"
    ]
    assert len(said("audit", TABLE, "--session", "sales", db=sales)) == 5
    query = ["Query(query00000)", "--session", "sales", "--attribute", "query"]
    assert said("audit", *query, "--round", 1, "--sub", 1, db=sales) == [
        "query_registered Query(query00000) @2 query: Which table?"
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["Table(nothing)"], 1, "there is no node 'Table(nothing)'"),
        ([TABLE, "--session", "z"], 1, f"there is no node {TABLE!r}"),
        ([TABLE, "--attribute", "size"], 1, f"{TABLE} never had an attribute 'size': it has description, path"),
        ([TABLE, "--item", "x"], 2, "--item goes with a context, and this is a node"),
        ([FIRST, "--session", "sales"], 2, "--session, --user, --round and --sub go with a NODE"),
        ([FIRST, "--attribute", "size"], 1, f"run:{FIRST} never had an attribute 'size' that was changed"),
        (["Thing(x)"], 1, "there is no context 'Thing(x)'"),
    ],
)
def test_what_cannot_be_audited(sales: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line says why."""
    ended = refold("audit", *arguments, db=sales)

    assert ended.code == code
    assert ended.fault.startswith(fault)


def test_steps_come_and_go(tmp_path: Path) -> None:
    """One that is given back is there again, and queues that are filled anew let go of what was in them."""
    with package.open(tmp_path / "runs.db") as store:
        run = store.run("mia", "s")
        run.append_todo("old", list_type="pre")
        run.append_todo("a")
        step = run.pop_todo()
        assert step is not None
        run.return_step(step)
        run.init_todolist(["new"])

    told = said("audit", "run:mia/s/0/0", db=tmp_path / "runs.db")[1:]
    assert [line.partition(" @")[0] for line in told] == [
        "step_queued + old", "step_queued + a", "step_taken - a", "step_returned + a", "steps_cleared - old",
        "step_queued + new",
    ]  # fmt: skip


@pytest.mark.parametrize(("room", "held"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps")])
def test_a_step_that_has_no_room(tmp_path: Path, room: int, held: str) -> None:
    """It is refused because of so many steps, one of which is no steps."""
    with package.open(tmp_path / "runs.db") as store:
        run = store.run("mia", "s")
        run.steps_max = room
        for name in ("a", "b", "c"):
            run.append_todo(name)

    (refused,) = said("audit", "run:mia/s/0/0", "--item", "c", db=tmp_path / "runs.db")
    assert refused.startswith(f"step_refused c refused (because: the queue held {held} already): ")


def test_a_numbered_node(sales: Path) -> None:
    """Only sessions that have so many count; where several have, the options say which is meant, also of the last."""
    with package.open(sales) as store:
        run = store.run("tom", "z")
        action = run.register_node("Action", "l", [run.register_query("?")], **ACT)
        run.register_node("Table", "", [action], label="orders (all)", path="/toms")

    numbered = f"{TABLE}#2"
    assert len(said("audit", numbered, db=sales)) == len(said("audit", TABLE, "--session", "sales", db=sales))
    assert refold("audit", f"{TABLE}#3", db=sales).fault == (
        f"there is no node {TABLE + '#3'!r} in the runs that were asked for"
    )
    with package.open(sales) as store:
        store.run("tom", "z").register_node("Table", "", [action], label="orders (all)", path="/toms")
    assert refold("audit", numbered, db=sales).fault == (
        f"there is {numbered!r} in session 'sales' of 'mia', session 'z' of 'tom': say which with --session and --user"
    )
