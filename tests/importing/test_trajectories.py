"""Transcripts become runs: a round for each question, an action for each call, and what was found."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import refold
from examples.transcripts import transcript
from refold.domain.chat.events import FunctionReturned
from refold.domain.chat.pairing import pair_calls
from refold.domain.errors import InvalidInputError
from refold.domain.formats.openai.receive import shape_messages
from refold.domain.trajectory.events import MessageRecorded
from refold.domain.trajectory.identity import run_id_of
from refold.infrastructure.importing import import_as_runs, read_runs, record_transcript
from refold.infrastructure.importing.trajectories import is_failure
from refold.trajectory import Run
from tests.domain.strategies import PROPERTY
from tests.importing.openai_strategies import CONVERSATION
from tests.importing.shapes import Message, answered, asked, call, said
from tests.importing.transcripts import written
from tests.support.effort import IS_DEEP
from tests.support.project import ROOT

REAL = ROOT.parent / "shared" / "data" / "tau_airline_100.json"
HAS_REAL = pytest.mark.skipif(not REAL.exists(), reason="shared/data is not beside this checkout")
MADE_UP = transcript(tasks=4, trials=2)
QUESTION = said("user", "Where are they?")
LOOKED_UP = [asked(call("a", "look_up", '{"id": 7}')), answered("a", '{"id": 7, "at": "sea"}')]


def recorded(store: refold.Store, *messages: Message, **options: Any) -> list[Run]:
    """Record messages as runs of the session `s` of mia."""
    return record_transcript(store, messages, user_id="mia", session_id="s", **options)


def edges(run: Run) -> list[tuple[str, str, str]]:
    """Return the edges of a run's graph."""
    return [(edge.source, edge.type, edge.target) for edge in run.graph().edges]


def calls_in(messages: list[Message]) -> list[tuple[str, str | None]]:
    """Return the calls of a transcript in order, each with what it returned."""
    items = [item for group in shape_messages(messages, context_id="c", created_at=0.0) for item in group]
    outputs = pair_calls(items).output_of
    return [
        (item.name, items[outputs[index]].output if index in outputs else None)  # type: ignore[union-attr]
        for index, item in enumerate(items)
        if type(item).__name__ == "FunctionCalled"
    ]


def actions_in(run: Run) -> list[tuple[str, str | None]]:
    """Return the actions of all rounds that a run goes back over, each with its output."""
    nodes = [node for node in run.graph().nodes.values() if node.type == "Action"]
    return [(node.attributes["action"], node.attributes["output"]) for node in nodes]


@pytest.mark.parametrize(
    ("output", "is_error"),
    [
        ('{"error": "none"}', True),
        ('{"error": ""}', False),
        ('["error"]', False),
        ('{"at": 1}', False),
        ("fine", False),
    ],
)
def test_a_failure_is_read_from_the_output(output: str, is_error: bool) -> None:
    """A field `error` that is not empty says so, since these messages have no place for it."""
    assert is_failure(FunctionReturned(id="r", created_at=0.0, call_id="a", name="f", output=output)) is is_error


def messages_in(run: Run) -> int:
    """Return how many messages were recorded, those among them that cannot be replayed."""
    return sum(isinstance(event, MessageRecorded) for event in run._journal.events(until=run.version))


def test_a_round_is_a_query_with_calls_data_and_a_conclusion(store: refold.Store) -> None:
    """Each follows from the one before it."""
    (run,) = recorded(store, QUESTION, *LOOKED_UP, said("assistant", "At sea."))

    assert edges(run) == [
        ("Query(query00000)", "triggers", "Action(action00000)"),
        ("Action(action00000)", "outputs", 'Knowledge(look_up({"id":7}))'),
        ("Action(action00000)", "has_conclusion", "State(state00000)"),
    ]
    action = run.node("Action(action00000)").get_full_content()
    assert (action["action"], action["params"], action["success"]) == ("look_up", {"id": 7}, True)
    assert action["output"] == '{"id": 7, "at": "sea"}'
    found = run.node('Knowledge(look_up({"id":7}))').get_full_content()
    assert (found["knowledge_type"], found["knowledge_content"]) == ("tool result", {"id": 7, "at": "sea"})
    assert run.get_active_branch() == {"State(state00000)"}


def test_calls_made_at_once_have_one_source_and_are_joined(store: refold.Store) -> None:
    """Text beside calls is a conclusion that triggers them; text that is no data, or says that it failed, is none."""
    both = asked(call("a", "count"), call("b", "weigh"), content="I shall see.")
    (run,) = recorded(store, QUESTION, both, answered("b", "Error: no scales"), answered("a", "3"), said("assistant"))

    assert edges(run) == [
        ("Query(query00000)", "has_conclusion", "State(state00000)"),
        ("State(state00000)", "triggers", "Action(action00000)"),
        ("State(state00000)", "triggers", "Action(action00001)"),
        ("Action(action00000)", "has_conclusion", "State(state00001)"),
        ("Action(action00001)", "has_conclusion", "State(state00001)"),
    ]
    ended = [run.node(name).get_full_content() for name in run.nodes("Action")]
    assert [(one["output"], one["success"]) for one in ended] == [("3", True), ("Error: no scales", False)]
    assert run.get_active_branch() == {"State(state00001)"}


def test_a_call_without_an_answer_neither_succeeded_nor_failed(store: refold.Store) -> None:
    """Its output is none."""
    (run,) = recorded(store, QUESTION, asked(call("a", "look_up")))
    action = run.node("Action(action00000)").get_full_content()

    assert (action["output"], action["success"]) == (None, None)


def test_later_questions_are_later_rounds(store: refold.Store) -> None:
    """They are bridged, and the same lookup meets the same data again."""
    _, last = recorded(store, QUESTION, *LOOKED_UP, said("user", "Still?"), *LOOKED_UP)
    data = 'Knowledge(look_up({"id":7}))'

    assert last.run_id == 1
    assert [version.kind for version in last.versions(data)] == ["registered", "met_again"]
    assert (f"{data}#1", "continues_to", "Query(query00001)") in edges(last)
    assert last.graph().is_acyclic
    assert last.session_root == "Query(query00000)"


def test_every_message_is_recorded(store: refold.Store) -> None:
    """With the round it belongs to; what a record has no field for is beside the rest."""
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    begin = [said("developer", "Be brief."), said("assistant", "Yes?")]
    first, second = recorded(
        store, *begin, QUESTION, old, {"role": "function", "name": "f", "content": "3"}, said("user", "Hm.", x=1)
    )

    kinds = [type(message).__name__ for message in first.messages()]
    assert kinds == ["SystemMessage", "AIMessage", "HumanMessage", "AIMessage", "ToolMessage"]
    assert first.messages()[0].additional_kwargs == {"role": "developer"}
    assert first.messages()[3].additional_kwargs == {"function_call": {"name": "f", "arguments": "{}"}}
    assert actions_in(first) == [("f", "3")]
    assert second.messages()[0].additional_kwargs == {"x": 1}


def test_tools_and_what_lies_beside_are_kept_with_the_first_round(store: refold.Store) -> None:
    """A definition becomes a node behind the query."""
    tool = {
        "type": "function",
        "function": {"name": "look_up", "description": "Looks.", "parameters": {"type": "object"}},
    }
    first, second = recorded(store, QUESTION, QUESTION, tools=[tool], attributes={"reward": 1.0})

    assert first.node("Query(query00000)").extra == {"attributes": {"reward": 1.0}}
    assert edges(first) == [("Query(query00000)", "find_relevant_tool", "Tool(look_up)")]
    assert first.node("Tool(look_up)").description == "Looks."
    assert len(second.nodes("Tool")) == 1


def test_recording_again_changes_nothing(store: refold.Store) -> None:
    """What came since, in the store or in the transcript, stays and is added."""
    messages = [QUESTION, *LOOKED_UP]
    (run,) = recorded(store, *messages)
    run.record_messages(said("assistant", "By the way."))
    before = store.now()

    assert recorded(store, *messages)[0] is run
    assert store.now() == before
    assert [one.run_id for one in recorded(store, *messages, QUESTION)] == [0, 1]
    assert len(store.contexts()) == 2


THERE = [QUESTION, said("user", "And there?")]
DEEP = '{"a":' * 200 + "1" + "}" * 200


@pytest.mark.parametrize(
    ("messages", "tools", "fault"),
    [
        ([said("assistant", "Hello?")], [], "no message of a user"),
        ([QUESTION, said("robot")], [], r"messages\[1\].role"),
        ([QUESTION, said("user", "\ud800")], [], r"messages\[1\]"),
        ([QUESTION], [{"type": "function"}], r"tool 0 \(from 0\)"),
        ([QUESTION, QUESTION, said("assistant", "Other.")], [], r"round 1 \(from 0\) differs"),
        # The round before could be recorded.
        ([*THERE, QUESTION, QUESTION, asked(call("a", "f", DEEP))], [], "nested more than JSON_DEPTH_MAX"),
    ],
)
def test_what_cannot_be_recorded_is_refused_whole(
    store: refold.Store, messages: list[Message], tools: list[Message], fault: str
) -> None:
    """The error says what is wrong, and nothing was written."""
    recorded(store, *THERE)
    before = store.now()

    with pytest.raises(InvalidInputError, match=fault):
        record_transcript(store, messages, user_id="mia", session_id="s", tools=tools)
    assert store.now() == before


def test_a_run_that_was_only_opened_is_filled(store: refold.Store) -> None:
    """Somebody prepared it."""
    prepared = store.run("mia", "s")

    assert recorded(store, QUESTION) == [prepared]
    assert prepared.initial == "Query(query00000)"


def test_long_arguments_are_told_apart_by_a_digest(store: refold.Store) -> None:
    """The label of their data shows how they begin."""
    one, two = (json.dumps({"ids": [*range(100), last]}) for last in (1, 2))
    calls = asked(call("a", "f", one), call("b", "f", two))
    (run,) = recorded(store, QUESTION, calls, answered("a", "[1]"), answered("b", "[2]"))

    labels = {run.node(name).label for name in run.nodes("Knowledge")}
    assert len(labels) == 2
    assert {len(label) for label in labels} == {len("f()") + 200 + len("... ") + 12}


@PROPERTY
@given(messages=CONVERSATION)
def test_every_transcript_is_a_graph(messages: list[Any]) -> None:
    """Whatever its shape: acyclic, all messages there, and the same when it is recorded again."""
    with refold.open(":memory:") as store:
        runs = recorded(store, QUESTION, *messages)
        before = store.now()

        assert runs[-1].graph().is_acyclic
        assert actions_in(runs[-1]) == calls_in(messages)
        assert sum(map(messages_in, runs)) == len(messages) + 1
        assert recorded(store, QUESTION, *messages) == runs
        assert store.now() == before


@pytest.mark.long
@pytest.mark.parametrize("source", ["made up", pytest.param("real", marks=HAS_REAL)])
def test_whole_files_become_sessions(tmp_path: Path, source: str) -> None:
    """Every call and result is found again, rounds are bridged, and what was closed and opened is the same."""
    path = REAL if source == "real" else written(tmp_path / "made_up.json", MADE_UP)
    # Of the real ones a third, where every change waits for the tests.
    transcripts = read_runs([path])[:: 1 if IS_DEEP or source != "real" else 3]
    with refold.open(tmp_path / "refold.db") as store:
        report = import_as_runs(store, transcripts, user="mia")
        again = import_as_runs(store, transcripts, user="mia")
        graphs = {row.id: store.run(*run_id_of(row.id), create=False).graph() for row in store.contexts()}

    assert (report.added, again.added, again.unchanged) == (len(graphs), 0, len(graphs))
    assert report.messages == sum(len(one.messages) for one in transcripts)
    with refold.open(tmp_path / "refold.db") as store:
        for one in transcripts:
            asked_for = sum(message["role"] == "user" for message in one.messages)
            last = store.run("mia", one.context_id, asked_for - 1, create=False)
            assert graphs[last.id] == last.graph()
            assert actions_in(last) == calls_in(one.messages)
            assert last.graph().is_acyclic
            assert last.graph().descendants("Query(query00000)") == set(last.nodes()) - {"Query(query00000)"}


def test_files_as_runs_name_what_is_wrong(store: refold.Store, tmp_path: Path) -> None:
    """The file and the run, where a later one cannot be a graph; nothing was written."""
    tool = {"type": "function", "function": {"name": "look_up", "description": 5}}
    path = written(tmp_path / "x.json", [{"messages": [QUESTION]}, {"messages": [QUESTION], "tools": [tool]}])

    with pytest.raises(InvalidInputError) as caught:
        import_as_runs(store, read_runs([path]))

    assert str(caught.value) == f"{path}, run 2: the description is 5: it is a text"
    assert store.contexts() == []


def test_how_far_files_are_is_told(store: refold.Store, tmp_path: Path) -> None:
    """After each transcript, of how many."""
    path = written(tmp_path / "x.json", [{"messages": [QUESTION]}, {"messages": [QUESTION]}])
    told: list[tuple[int, int]] = []

    import_as_runs(store, read_runs([path]), progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 2), (2, 2)]
