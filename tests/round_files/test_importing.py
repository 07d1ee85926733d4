"""Importing into a store that has something already: it is the truth, and files change nothing of it."""

import json
from pathlib import Path

import pytest

import refold
from refold.domain.errors import DecisionRefusedError, InvalidInputError, NotFoundError
from refold.domain.trajectory.rounds import import_round
from refold.infrastructure.round_files import import_round_files, read_round_files, write_round_files

from .rounds import ACTION, ASKS, QUERY, SESSION, USER, busy_run, next_run, write_original


def outcomes(store: refold.Store, root: Path) -> list[str]:
    """Import all rounds of a folder, and return what became of each."""
    return [one.outcome for one in import_round_files(store, root, user_id=USER, session_id=SESSION)]


def test_a_second_time_changes_nothing(store: refold.Store, other: refold.Store, tmp_path: Path) -> None:
    """Neither where the files came from nor where they came to."""
    for run in (busy_run(store), next_run(store)):
        write_round_files(run, tmp_path)
    outcomes(other, tmp_path)
    before = store.now(), other.now()

    assert outcomes(other, tmp_path) == ["unchanged", "unchanged"]
    assert outcomes(store, tmp_path) == ["unchanged", "unchanged"]
    assert (store.now(), other.now()) == before


def test_a_run_that_went_on_is_still_the_same(other: refold.Store, tmp_path: Path) -> None:
    """What was said since is no fault of the file; what was imported has a name."""
    write_original(tmp_path, [QUERY, ACTION], [ASKS])
    outcomes(other, tmp_path)
    run = other.run(USER, SESSION, 0)
    run.register_node("State", "more", [ACTION["id"]], state="s")

    assert outcomes(other, tmp_path) == ["unchanged"]
    assert run.diff("imported").nodes_added == ("State(state00000)",)


def test_other_content_is_refused(store: refold.Store, tmp_path: Path) -> None:
    """The round is named, and those before it are not written either."""
    write_original(tmp_path, [QUERY], [])
    store.run(USER, SESSION, 1).register_query("mine")
    write_original(tmp_path, [{**QUERY, "run_id": 1, "query": "theirs"}], [], run=1)

    with pytest.raises(InvalidInputError, match=r"Run1_Sub0\.json differs from the run 'run:mia/s%2F1/1/0'"):
        outcomes(store, tmp_path)

    assert [row.id for row in store.contexts()] == ["mia/s%2F1/1/0"]


@pytest.mark.parametrize(("user", "session"), [(USER, "else"), ("else", SESSION)])
def test_other_sessions_are_refused(
    store: refold.Store, other: refold.Store, tmp_path: Path, user: str, session: str
) -> None:
    """D7.11, repaired: our files say whose they are."""
    write_round_files(busy_run(store), tmp_path)

    with pytest.raises(InvalidInputError, match="and not of 'else'"):
        import_round_files(other, tmp_path, user_id=user, session_id=session)

    assert other.contexts() == []


def test_one_round_or_one_agent(other: refold.Store, tmp_path: Path) -> None:
    """`run_id` and `sub_id` say which files are meant."""
    for run, sub in ((0, 0), (0, 1), (10, 0), (2, 0)):
        write_original(tmp_path, [{**QUERY, "run_id": run}], [], run=run, sub=sub)
    (tmp_path / ".context" / "Run1_Sub0.json.1.tmp").write_text("{")

    one = import_round_files(other, tmp_path, user_id=USER, session_id=SESSION, run_id=0, sub_id=1)
    main = import_round_files(other, tmp_path, user_id=USER, session_id=SESSION, sub_id=0)

    assert [(found.run.run_id, found.run.sub_id) for found in one + main] == [(0, 1), (0, 0), (2, 0), (10, 0)]
    with pytest.raises(NotFoundError):
        import_round_files(other, tmp_path, user_id=USER, session_id=SESSION, run_id=7)


def test_a_round_is_one_transaction(
    store: refold.Store, other: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails half-way leaves no run behind, and can be done again."""
    write_round_files(busy_run(store), tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("refold.domain.trajectory.run.Run.record_messages", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            outcomes(other, tmp_path)
    assert other.contexts() == []

    assert outcomes(other, tmp_path) == ["added"]


def test_a_run_that_holds_something_takes_no_round(store: refold.Store, tmp_path: Path) -> None:
    """It was made by somebody at the same moment."""
    run = busy_run(store)
    write_round_files(run, tmp_path)
    record = read_round_files(tmp_path, 0).record

    with pytest.raises(DecisionRefusedError, match="can be imported only into an empty run"):
        import_round(run, record)


def test_who_imported_is_recorded(other: refold.Store, tmp_path: Path) -> None:
    """Where a file does not say who did something, an import did."""
    write_original(tmp_path, [QUERY], [])
    outcomes(other, tmp_path)

    assert {one.meta.actor for one in other.run(USER, SESSION, 0).recorded_events()} == {"import"}


def test_a_file_keeps_what_is_in_it(store: refold.Store, tmp_path: Path) -> None:
    """The originals' readers find what they know, under the names that they know."""
    paths = write_round_files(busy_run(store), tmp_path)
    graph, meta = (json.loads(path.read_bytes()) for path in paths)

    assert set(graph) == {"directed", "multigraph", "graph", "nodes", "edges"}
    assert (graph["directed"], graph["multigraph"]) == (True, False)
    assert set(ACTION) <= set(graph["nodes"][1])
    assert (graph["nodes"][1]["id"], graph["nodes"][1]["params"]) == (ACTION["id"], {"of": "é"})
    assert {"source": QUERY["id"], "target": ACTION["id"], "edge_type": "triggers"} in graph["edges"]
    assert set(meta) == {"initial_pt", "current_pt", "messages", "refold"}
    assert meta["current_pt"] == ["Action(action00000)", "Query(query00000)", "State(state00000)"]
    assert [record["type"] for record in meta["messages"]["historical_messages"]] == [
        "SystemMessage", "HumanMessage", "AIMessage", "ToolMessage",
    ]  # fmt: skip
