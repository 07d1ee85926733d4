"""
The model of the seed's trajectory gives all that was recorded, and with its repairs all that runs answer.

It shares no code with them, so each is a second opinion on the other.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from tests.domain.strategies import PROPERTY
from tests.support.deviations.switches import UNEXPLAINED
from tests.support.deviations.trajectory import NUMBERS
from tests.support.deviations.trajectory_graph import FIELDS
from tests.support.parity.rounds import recorded
from tests.support.parity.trajectories import asked, modelled, replayed_trajectories
from tests.support.parity.verdicts import EQUAL
from tests.support.project import ROOT

COMMITTED = ROOT / "tests" / "golden" / "dataagent_fuzz.jsonl"
WHOLE = ROOT.parent / "shared" / "golden" / "dataagent_fuzz.jsonl"

QUERY = {"op": "register_query", "args": {"query": "q", "additional_files": []}}
NAMES = st.sampled_from([
    "Query(query00000)", "Query(query00000)", "Query(query00001)", "State(state00000)", "State(state00001)",
    "Action(action00000)", "Action(action00001)", "Action(a)", "Table(orders)", "Tool(tool00000)", "Nope(x)",
])  # fmt: skip
VALUES = st.sampled_from([None, "v", 1, {"k": [1]}])
ATTRIBUTES = {name: st.fixed_dictionaries(dict.fromkeys(fields, VALUES)) for name, fields in FIELDS.items()}
TYPES = st.sampled_from([*FIELDS, "State", "Action", "State", "Action", "Table", "Nope"])
LABELS = {"Action": ["a", "action00001"], "Table": ["orders"], "Tool": ["tool00001"]}
MAYBE = st.sampled_from([{}, {}, {"add_pt": True}, {"remove_pt": True}, {"add_pt": True, "remove_pt": True}])


@st.composite
def registrations(draw: st.DrawFn) -> dict[str, Any]:
    """Return calls of register_node, of which most can be carried out."""
    node_type = draw(TYPES)
    args = {
        "node_type": node_type,
        "description": draw(st.sampled_from(["", "d"])),
        "predecessor_node": draw(st.lists(NAMES, max_size=2)),
        "attrs": draw(ATTRIBUTES.get(node_type, st.just({}))) if draw(st.integers(0, 9)) else {},
        **draw(MAYBE),
    }
    if draw(st.booleans()):
        args["edge_type"] = "explicit"
    if node_type in LABELS and draw(st.booleans()):
        args["label"] = draw(st.sampled_from(LABELS[node_type]))
    return {"op": "register_node", "args": args}


CHANGES = st.dictionaries(st.sampled_from(["description", "description", "path", "state"]), st.just("m"), max_size=2)
STEPS = st.one_of(
    registrations(),
    registrations(),
    registrations(),
    st.builds(
        lambda name, changes: {"op": "modify_node", "args": {"graph_node_label": name, "changes": changes}},
        NAMES, CHANGES,
    ),
    st.builds(lambda name: {"op": "remove_node", "args": {"graph_node_label": name}}, NAMES),
    st.just(QUERY),
)  # fmt: skip
ROUNDS = st.lists(
    st.tuples(st.booleans(), st.lists(STEPS, max_size=12)).map(lambda one: [QUERY] * one[0] + one[1]), max_size=3
)


def case_of(*rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a case as the seed would have answered it."""
    case: dict[str, Any] = {"seed": 1, "rounds": [{"ops": steps} for steps in rounds]}
    answers = modelled(case)
    for one, answer in zip(case["rounds"], answers, strict=True):
        steps = [{**step, **outcome} for step, outcome in zip(one["ops"], answer.pop("ops"), strict=True)]
        one.update(answer, ops=steps)
    return case


def outcome(case: dict[str, Any]) -> str:
    """Return what becomes of a case."""
    (verdict,) = replayed_trajectories(json.dumps(case))
    return verdict.outcome


def recorded_cases(path: Path) -> list[dict[str, Any]]:
    """Return the cases of a file."""
    if not path.exists():
        pytest.skip(f"shared/golden/{path.name} is not beside this checkout")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def registered(node_type: str, *predecessors: str, **options: Any) -> dict[str, Any]:
    """Return a call of register_node with all that the type requires."""
    args = {"node_type": node_type, "description": "", "predecessor_node": list(predecessors)}
    return {"op": "register_node", "args": {**args, "attrs": dict.fromkeys(FIELDS.get(node_type, ()), "v"), **options}}


def modified(name: str, **changes: Any) -> dict[str, Any]:
    """Return a call of modify_node."""
    return {"op": "modify_node", "args": {"graph_node_label": name, "changes": changes}}


def removed(name: str) -> dict[str, Any]:
    """Return a call of remove_node."""
    return {"op": "remove_node", "args": {"graph_node_label": name}}


FIRST, STATE, NEW_STATE = "Query(query00000)", "State(state00000)", registered("State", "Query(query00000)")


@pytest.mark.parametrize("path", [COMMITTED, WHOLE], ids=["committed", "whole"])
def test_the_model_is_right(path: Path) -> None:
    """Without repairs it gives every recorded answer, whole."""
    wrong = [case["seed"] for case in recorded_cases(path) if modelled(case) != recorded(case)]

    assert wrong == []


@PROPERTY
@given(ROUNDS)
def test_model_and_runs_agree(rounds: list[list[dict[str, Any]]]) -> None:
    """With all repairs, on operations that nobody recorded."""
    case = case_of(*rounds)

    assert asked(case) == modelled(case, NUMBERS)


@pytest.mark.parametrize(
    ("number", "rounds"),
    [
        ("D3.2", [[QUERY, registered("Query", FIRST, edge_type="e")]]),
        ("D4.4", [[QUERY, registered("Tool", FIRST, edge_type="e", label="tool00001"),
                   registered("Tool", FIRST, edge_type="e")]]),
        ("D4.5", [[QUERY, *[registered("Table", FIRST, edge_type="e", label="orders")] * 2]]),
        ("D4.7", [[QUERY, registered("Nope", FIRST, edge_type="e")]]),
        ("D5.4", [[QUERY, registered("Action", FIRST), registered("File", "Action(action00000)")]]),
        ("D6.5", [[QUERY, registered("File", FIRST, edge_type="e", add_pt=True)]]),
        ("D6.6", [[QUERY, NEW_STATE, NEW_STATE]]),
        ("D7.4", [[QUERY, NEW_STATE, removed(STATE)], [QUERY, registered("State", "Query(query00001)")]]),
        ("D7.7", [[QUERY], [], [QUERY], [QUERY]]),
        ("D7.12", [[QUERY, modified(FIRST, description="m")], [QUERY]]),
        ("D8.3", [[QUERY, modified(FIRST, description="m", path="p")]]),
        ("D8.5", [[QUERY, modified(FIRST)]]),
        ("D8.10", [[QUERY, NEW_STATE], [QUERY, removed(STATE)]]),
        ("D8.11", [[QUERY, removed("State(nope)")]]),
        ("D13.2", [[QUERY, NEW_STATE], [QUERY, registered("State", STATE, add_pt=True)], [QUERY]]),
        (EQUAL, [[QUERY, NEW_STATE, registered("State", "Nope(x)"), modified(STATE, state="m")]]),
    ],
)  # fmt: skip
def test_each_repair(number: str, rounds: list[list[dict[str, Any]]]) -> None:
    """What shows one deviation, and no other."""
    assert outcome(case_of(*rounds)) == number


@pytest.mark.parametrize("seed", [104, 202])
def test_every_part_counts(seed: int) -> None:
    """An answer that is wrong in any part is found out, in a case that is equal and in one that is explained."""
    case = next(case for case in recorded_cases(COMMITTED) if case["seed"] == seed)
    spoiled = []
    for part in sorted(case["rounds"][-1].keys() - {"ops"}):
        spoiled.append(copy.deepcopy(case))
        spoiled[-1]["rounds"][-1][part] = {**case["rounds"][-1]["meta"], "initial_pt": "?"} if part == "meta" else "?"
    for part in ("result", "pointers"):
        spoiled.append(copy.deepcopy(case))
        spoiled[-1]["rounds"][0]["ops"][0][part] = ["?"]

    assert outcome(case) != UNEXPLAINED
    assert [outcome(one) for one in spoiled] == [UNEXPLAINED] * 13


@pytest.mark.parametrize("seed", [17, 110, 145, 187])
def test_runs_of_a_store(tmp_path: Path, seed: int) -> None:
    """They answer as detached ones do, also where each round is opened by another process's store."""
    case = next(case for case in recorded_cases(COMMITTED) if case["seed"] == seed)
    stores = [refold.open(tmp_path / "runs.db") for _ in case["rounds"]]
    answers = asked(case, lambda user, session, number: stores[number].run(user, session, number))
    for store in stores:
        store.close()

    assert answers == asked(case)
