"""Claude Code sessions: the tree of their lines becomes contexts and forks."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.domain.chat.events import Opened
from refold.domain.errors import InvalidInputError
from refold.domain.formats.send import NO_OUTPUT
from refold.infrastructure.importing import ImportReport, import_file, import_runs, read_runs
from tests.domain.strategies import PROPERTY
from tests.importing.sessions import SESSION, Writing, forked_at, kept_words, result, text, use
from tests.support.provider_rules.anthropic import faults

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def brought_in(store: refold.Store, path: Path, session: Writing, **options: Any) -> ImportReport:
    """Import a session."""
    return import_file(store, session.save(path), **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a session's file."""
    return tmp_path / f"{SESSION}.jsonl"


def test_a_session_is_a_context(store: refold.Store, path: Path) -> None:
    """It is named after the session, and opened with what its first line says of it; times are those of the lines."""
    session = Writing(gitBranch="main")
    session.talk(None, "hi", "hello")
    report = brought_in(store, path, session)
    chat = store.chat(SESSION, create=False)
    opened = chat.history()[0].event

    assert (report.added, report.messages, report.items, report.notes) == (1, 2, 2, ())
    assert isinstance(opened, Opened)
    assert (opened.session, opened.source) == (SESSION, path.name)
    assert chat.to_anthropic_messages(exact=True) == ([line["message"] for line in session.lines], None)
    assert [item.created_at for item in chat.items] == [1_800_000_001.0, 1_800_000_002.0]
    assert b'"cwd":"/work-of-mia","gitBranch":"main"' in opened.attributes


@pytest.mark.parametrize(
    ("name", "prefix", "context_id"),
    [
        ("x", "mine", "mine-a-b-c"),
        ("x", None, "x-a-b-c"),
        ("a b-c", None, "a-b-c"),
        ("a b-c", "a-b-c", "a-b-c-a-b-c"),
    ],
)
def test_a_prefix_goes_before_the_session(
    store: refold.Store, tmp_path: Path, name: str, prefix: str | None, context_id: str
) -> None:
    """The file's name is one, unless it is that of the session."""
    session = Writing("a b/c")
    session.talk(None, "hi")
    brought_in(store, tmp_path / f"{name}.jsonl", session, prefix=prefix)

    assert kept_words(store) == {context_id: "hi"}


def test_the_file_of_a_sub_agent_is_named_after_it(store: refold.Store, tmp_path: Path) -> None:
    """Beside the session's own file it gives a context beside the session's."""
    session = Writing(agentId="a1", isSidechain=True)
    session.talk(None, "find it", "here")
    brought_in(store, tmp_path / "agent-a1.jsonl", session)

    assert kept_words(store) == {f"{SESSION}-agent-a1": "find it | here"}


def test_what_lies_beside_a_message_is_kept(store: refold.Store, path: Path) -> None:
    """All of its line, with the first of its items."""
    session = Writing()
    called = session.assistant(session.user(None, "hi"), use("c1"))
    session.user(called, [result("c1")], toolUseResult={"stdout": "found"})
    brought_in(store, path, session)
    origin = store.chat(SESSION).recorded_items()[-1].origin

    assert origin is not None
    assert b'"toolUseResult":{"stdout":"found"}' in origin.rest


def test_pieces_of_a_message_are_one(store: refold.Store, path: Path) -> None:
    """Blocks that were written one by one; the last piece is right about what they have in common."""
    session = Writing()
    asked = session.user(None, "hi")
    first = session.assistant(asked, THOUGHT, message_id="m1")
    second = session.assistant(first, "let me see", message_id="m1")
    session.assistant(second, use("c1"), message_id="m1")
    report = brought_in(store, path, session)
    _, answer = store.chat(SESSION).to_anthropic_messages(exact=True)[0]

    assert (report.messages, report.items) == (2, 4)
    # The usage of the whole message is stored once, with its first piece; the last piece has it by itself.
    beside = [json.loads(item.origin.rest) for item in store.chat(SESSION).recorded_items()]  # type: ignore[union-attr]
    last = session.lines[-1]["message"]["usage"]
    assert [one.get("usage") for one in beside] == [None, last, None, None]
    assert answer == {**session.lines[-1]["message"], "content": [THOUGHT, text("let me see"), use("c1")]}


def test_two_lines_of_one_parent_are_two_branches(store: refold.Store, path: Path) -> None:
    """The one with the newest end is the context, the other a fork of it where they part."""
    session = Writing()
    first = session.talk(None, "one", "1")
    session.talk(first, "two", "2")
    session.talk(first, "three", "3")
    report = brought_in(store, path, session)

    assert kept_words(store) == {
        SESSION: "one | 1 | three | 3",
        f"{SESSION}-fork-1": "one | 1 | two | 2",
    }
    assert forked_at(store) == {f"{SESSION}-fork-1": f"{SESSION}@3"}
    assert (report.added, report.messages) == (2, 6)


def test_the_newest_end_counts_not_the_last_line(store: refold.Store, path: Path) -> None:
    """By the time of the lines."""
    session = Writing()
    first = session.talk(None, "one", "1")
    session.user(first, "two", timestamp="2028-01-01T00:00:00Z")
    session.talk(first, "three", "3")
    brought_in(store, path, session)

    assert kept_words(store)[SESSION] == "one | 1 | two"


def test_branches_part_from_branches(store: refold.Store, path: Path) -> None:
    """A fork may be forked, also in the middle of what it alone has; numbers follow the file."""
    session = Writing()
    first = session.talk(None, "one", "1")
    second = session.talk(first, "two", "2")
    session.talk(second, "two a", "2a")
    session.talk(second, "two b", "2b")
    session.talk(first, "three", "3")
    session.talk(first, "four", "4")
    brought_in(store, path, session)

    fork = f"{SESSION}-fork"
    assert kept_words(store) == {
        SESSION: "one | 1 | four | 4",
        f"{fork}-1": "one | 1 | two | 2 | two b | 2b",
        f"{fork}-2": "one | 1 | two | 2 | two a | 2a",
        f"{fork}-3": "one | 1 | three | 3",
    }
    assert forked_at(store) == {f"{fork}-1": f"{SESSION}@3", f"{fork}-2": f"{fork}-1@3", f"{fork}-3": f"{SESSION}@3"}


def test_calls_made_at_once_are_no_branches(store: refold.Store, path: Path) -> None:
    """The result of each call names the line of its call, beside which the next call stands."""
    session = Writing()
    asked = session.user(None, "both")
    first = session.assistant(asked, use("c1"), message_id="m1")
    second = session.assistant(first, use("c2"), message_id="m1")
    session.user(first, [result("c1")])
    last = session.user(second, [result("c2")])
    session.talk(session.assistant(last, "done"), "thanks")
    brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "both | +c1 +c2 | =c1 | =c2 | done | thanks"}
    messages, _ = store.chat(SESSION).to_anthropic_messages()
    assert [block["type"] for block in messages[2]["content"]] == ["tool_result", "tool_result"]


def test_results_between_calls_are_no_branches(store: refold.Store, path: Path) -> None:
    """A call may be answered before the next one of its message is written; and pieces may all name one parent."""
    session = Writing()
    asked = session.user(None, "both")
    first = session.assistant(asked, use("c1"), message_id="m1")
    session.user(first, [result("c1")])
    second = session.assistant(asked, use("c2"), message_id="m1")
    session.user(second, [result("c2")])
    session.assistant(first, "done")
    brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "both | +c1 | =c1 | +c2 | =c2 | done"}


@PROPERTY
@given(turns=st.lists(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), max_size=4), max_size=5))
def test_a_session_that_nobody_branched_has_no_forks(turns: list[list[tuple[bool, bool, int]]]) -> None:
    """Whenever the results of calls that were made at once were written, and whatever stands between them."""
    session = Writing()
    last = session.user(None, "go")
    for turn, calls in enumerate(turns):
        waiting: list[tuple[int, str, Any]] = []
        before = last
        for number, (is_answered, is_hooked, late) in enumerate(calls):
            call_id = f"c{turn}.{number}"
            before = last = session.assistant(before, use(call_id), message_id=f"m{turn}")
            last = session.line("progress", before) if is_hooked else last
            if is_answered:
                last = session.user(before, [result(call_id)])
            else:
                waiting.append((late, call_id, before))
        for _, call_id, called in sorted(waiting, key=lambda one: one[0]):
            last = session.user(called, [result(call_id)])
        last = session.assistant(last, "done")
    with tempfile.TemporaryDirectory() as folder, refold.open(":memory:") as store:
        brought_in(store, Path(folder, f"{SESSION}.jsonl"), session)
        chat = store.chat(SESSION, create=False)

        assert [*kept_words(store)] == [SESSION]
        assert len(chat.items) == len([line for line in session.lines if "message" in line])
        assert faults(*chat.to_anthropic_messages()) == []
        assert NO_OUTPUT not in str(chat.to_anthropic_messages())


def test_lines_without_a_message_are_seen_through(store: refold.Store, path: Path) -> None:
    """Others follow them, beside the results that they tell of; they are counted in a note."""
    session = Writing()
    called = session.assistant(session.user(None, "go"), use("c1"))
    hook = session.line("progress", called, data={"type": "hook_progress"})
    session.user(called, [result("c1")])
    told = session.line("progress", hook, data={"type": "hook_progress"})
    answered = session.assistant(told, "done")
    session.talk(session.line("system", answered, subtype="turn_duration"), "thanks")
    session.lines.append({"type": "file-history-snapshot", "messageId": "x"})
    report = brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "go | +c1 | =c1 | done | thanks"}
    assert report.notes == (
        f"{path}: lines without a message were passed over: 1 file-history-snapshot, 2 progress, 1 system",
    )


def test_a_call_that_was_answered_twice_is_a_branch(store: refold.Store, path: Path) -> None:
    """Two programs went on with the same session."""
    session = Writing()
    called = session.assistant(session.user(None, "go"), use("c1"))
    session.assistant(session.user(called, [result("c1", "one")]), "1")
    session.assistant(session.user(called, [result("c1", "two")]), "2")
    brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "go | +c1 | =c1 | 2", f"{SESSION}-fork-1": "go | +c1 | =c1 | 1"}
    assert forked_at(store) == {f"{SESSION}-fork-1": f"{SESSION}@3"}


def test_who_goes_back_before_a_result_leaves_it(store: refold.Store, path: Path) -> None:
    """A question that names the call's own line parts there."""
    session = Writing()
    called = session.assistant(session.user(None, "go"), use("c1"))
    session.assistant(session.user(called, [result("c1")]), "done")
    session.talk(called, "stop")
    brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "go | +c1 | stop", f"{SESSION}-fork-1": "go | +c1 | =c1 | done"}


def test_what_was_made_compact_goes_on(store: refold.Store, path: Path) -> None:
    """The summary follows what it tells of, which the model no longer saw, whether or not the line between says so."""
    session = Writing()
    last = session.talk(None, "one", "1")
    for logical in ({"logicalParentUuid": last["uuid"] if last else ""}, {}):
        boundary = session.line("system", None, subtype="compact_boundary", **logical)
        last = session.talk(boundary, "summary", "so far")
    report = brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "summary | so far"}
    chat = store.chat(SESSION)
    assert [(one.how, one.reason) for one in chat.evicted_items()] == [("evict", "compacted")] * 4
    noted = f"{path}: the conversation was compacted 2 times: what the model no longer saw has left the view"
    assert noted in report.notes
    assert {context.outcome for context in brought_in(store, path, session).contexts} == {"unchanged"}
    again = session.talk(session.line("system", None, subtype="compact_boundary"), "anew", "ok")
    session.talk(again, "more")
    brought_in(store, path, session)
    assert kept_words(store) == {SESSION: "anew | ok | more"}
    chat.refresh()
    assert [item.id for item in chat.at("happened:2027-01-15T08:00:02Z").items] == [
        one.item.id for one in chat.evicted_items()[:2]
    ]


@pytest.mark.parametrize(
    "kept",
    [
        {"preservedSegment": {"headUuid": "l3", "anchorUuid": "l4", "tailUuid": "l4"}},
        {"preservedMessages": {"anchorUuid": "l4", "uuids": ["l3", "l4"]}},
    ],
)
def test_what_a_compaction_left_stays_in_the_view(store: refold.Store, path: Path, kept: dict[str, Any]) -> None:
    """The model saw the last messages as they were, and so does the context; the rest left."""
    session = Writing()
    session.talk(None, "one", "1", "two", "2")
    boundary = session.line("system", None, subtype="compact_boundary", compactMetadata=kept)
    summary = session.user(boundary, "summary", isCompactSummary=True)
    session.assistant(summary, "so far")
    brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "two | 2 | summary | so far"}


def test_sub_agents_have_contexts_of_their_own(store: refold.Store, path: Path) -> None:
    """Named or not, also where they name the line that called them, or a line names theirs; they share the session."""
    session = Writing()
    called = session.assistant(session.user(None, "go"), use("c1", "Task"))
    for agent in ({"agentId": "a1"}, {}, {}):
        parent = session.user(called if agent else None, "find it", isSidechain=True, **agent)
        found = session.assistant(parent, f"{agent} here", isSidechain=True, **agent)
    session.user(called, [result("c1")])
    session.user(found, "thanks")
    brought_in(store, path, session)

    assert kept_words(store) == {
        SESSION: "go | +c1 | =c1 | thanks",
        f"{SESSION}-agent-a1": "find it | {'agentId': 'a1'} here",
        f"{SESSION}-agent-1": "find it | {} here",
        f"{SESSION}-agent-2": "find it | {} here",
    }
    rows = {row.id: (row.session, row.agent) for row in store.contexts()}
    assert rows[f"{SESSION}-agent-a1"] == (SESSION, "a1")


def test_what_begins_anew_is_a_part(store: refold.Store, path: Path) -> None:
    """A line without a parent in the middle of a file begins another conversation."""
    session = Writing()
    session.talk(None, "one", "1")
    session.talk(None, "two", "2")
    brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "one | 1", f"{SESSION}-part-2": "two | 2"}


def test_a_parent_that_is_not_there(store: refold.Store, path: Path) -> None:
    """The line follows the one before it, and a note says so; the first line begins all the same."""
    session = Writing()
    session.user("elsewhere", "one")
    session.assistant("gone", "1")
    report = brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "one | 1"}
    assert report.notes == (f"{path}: lines that follow one that is not in the file were put behind the one before: 1",)


def test_lines_in_a_ring(store: refold.Store, path: Path) -> None:
    """Files have been seen in which lines follow each other: one of them begins."""
    session = Writing()
    session.talk(session.user("l3", "one"), "1", "two")
    report = brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "one | 1 | two"}
    assert report.notes == (f"{path}: lines that follow one that is not in the file were put behind the one before: 1",)


def test_a_line_that_was_written_twice(store: refold.Store, path: Path) -> None:
    """The first counts."""
    session = Writing()
    session.talk(None, "one", "1")
    session.lines.append({**session.lines[0], "forkedFrom": {}, "parentUuid": None})
    report = brought_in(store, path, session)

    assert kept_words(store) == {SESSION: "one | 1"}
    assert report.notes == (f"{path}: lines that were written again were passed over: 1",)


def test_titles_lie_beside_the_session(store: refold.Store, path: Path) -> None:
    """Whatever they are called."""
    session = Writing()
    session.lines.append({"type": "summary", "summary": "A talk", "leafUuid": "l1"})
    session.talk(None, "one")
    session.lines.append({"type": "custom-title", "customTitle": "The talk", "sessionId": SESSION})
    brought_in(store, path, session)

    assert b'"titles":["A talk","The talk"]' in store.chat(SESSION).history()[0].event.attributes


def test_a_session_that_goes_on_with_another_has_its_own_name(store: refold.Store, tmp_path: Path) -> None:
    """Its file begins with the lines of the other; its own id comes last, and may be the name of the file."""
    session = Writing("old")
    last = session.talk(None, "one", "1")
    session.user(last, "two", sessionId="new")
    brought_in(store, tmp_path / "x.jsonl", session)
    brought_in(store, tmp_path / "old.jsonl", session)

    assert kept_words(store) == {"x-new": "one | 1 | two", "old": "one | 1 | two"}


def test_a_file_may_hold_several_sessions(store: refold.Store, tmp_path: Path) -> None:
    """Each is named after itself."""
    session, other = Writing(), Writing("other")
    session.talk(None, "one")
    other.line("user", None, uuid="o1", message={"role": "user", "content": "two"})
    session.lines += other.lines
    brought_in(store, tmp_path / "x.jsonl", session)

    assert kept_words(store) == {f"x-{SESSION}": "one", "x-other": "two"}


def test_a_file_may_hold_no_message(store: refold.Store, path: Path) -> None:
    """It is noted, and other files are imported."""
    session, empty = Writing(), Writing()
    session.talk(None, "one")
    empty.lines.append({"type": "summary", "summary": "Elsewhere", "leafUuid": "x"})
    nothing = empty.save(path.with_name("empty.jsonl"))
    report = import_runs(store, read_runs([nothing, nothing, session.save(path)]))

    assert (report.added, report.notes) == (1, (f"{nothing}: it has no line with a message",) * 2)
    assert [*kept_words(store)] == [SESSION]


def test_a_line_without_a_time_came_with_the_one_before(store: refold.Store, path: Path) -> None:
    """And sessions may be told what they are."""
    session = Writing()
    session.talk(session.user(None, "one", timestamp="2027-01-15T09:00:01+01:00"), "1")
    del session.lines[1]["timestamp"]
    brought_in(store, path, session, format="claude-code")

    assert [item.created_at for item in store.chat(SESSION).items] == [1_800_000_001.0, 1_800_000_001.0]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"message": None}, "field message: found null, expected an object"),
        (
            {"message": {"role": "robot", "content": ""}},
            "field role: 'robot' is no role, expected one of user, assistant",
        ),
        ({"message": {"role": "user"}}, "field content: found null, expected text or a list of blocks"),
        ({"message": {"role": "user", "content": [1]}}, "field content[0]: found a number, expected an object"),
        ({"uuid": None}, "field uuid: found null, expected text"),
        ({"uuid": ""}, "field uuid: found '', expected text that names the line"),
        ({"parentUuid": 7}, "field parentUuid: found a number, expected text"),
        ({"timestamp": "soon"}, "field timestamp: found 'soon', expected a time with its zone"),
        (
            {"timestamp": "2027-01-15T08:00:00"},
            "field timestamp: found '2027-01-15T08:00:00', expected a time with its",
        ),
        ({"cwd": "a\ud800"}, "field cwd: a lone surrogate (U+D800) at index 1"),
    ],
)
def test_a_line_that_cannot_be(store: refold.Store, path: Path, fields: dict[str, Any], fault: str) -> None:
    """The error names the file and the line, and nothing is written."""
    session = Writing()
    session.talk(None, "one", "1")
    session.lines.insert(1, {})
    session.lines[2].update(fields)
    before = store.now()

    with pytest.raises(InvalidInputError) as refused:
        brought_in(store, path, session)
    assert str(refused.value).startswith(f"{path}, line 3, {fault}")
    assert store.now() == before


def test_a_file_that_is_being_written(store: refold.Store, path: Path) -> None:
    """All complete lines are taken; a last line without an end, cut even within a character, is left for next time."""
    session = Writing()
    session.talk(None, "one", "1", "zwölf")
    whole = session.save(path).read_bytes().replace(b"\\u00f6", "ö".encode())
    for end in (whole.index(b"zw") + 3, -1):
        path.write_bytes(whole.rstrip(b"\n")[:end])
        report = import_file(store, path)
        assert report.notes == (f"{path}: its last line is not complete yet: it is left for the next import",)
        assert kept_words(store) == {SESSION: "one | 1"}
    path.write_bytes(whole)

    assert [(one.outcome, one.messages) for one in import_file(store, path).contexts] == [("extended", 1)]
    assert kept_words(store) == {SESSION: "one | 1 | zwölf"}


def test_broken_json_is_refused(store: refold.Store, path: Path) -> None:
    """A line that was cut off before others, say: the error has file, line and column."""
    session = Writing()
    session.talk(None, "one", "1", "two")
    broken = session.save(path)
    lines = broken.read_text().splitlines()
    broken.write_text("\n".join([lines[0], lines[1][:-20], lines[2], ""]))

    with pytest.raises(InvalidInputError, match=rf"{SESSION}.jsonl is not JSON Lines: .* at line 2, column \d+"):
        import_file(store, broken)
    path.write_text('{"parentUuid": "x", "type": "user"}\n7\n')
    with pytest.raises(InvalidInputError, match="line 1, field uuid: missing, expected text"):
        import_file(store, path)
    path.write_text("7\n8\n")
    with pytest.raises(InvalidInputError, match="line 1: found a number, expected an object"):
        import_file(store, path, format="claude-code")
    # Blank lines count: it is the line that an editor shows.
    path.write_text("\n\n7\n8\n")
    with pytest.raises(InvalidInputError, match="line 3: found a number, expected an object"):
        import_file(store, path, format="claude-code")


def test_lone_surrogates_can_be_replaced(store: refold.Store, path: Path) -> None:
    """As in every other form."""
    session = Writing()
    session.talk(None, "a\ud800b")
    brought_in(store, path, session, replace_surrogates=True)

    assert kept_words(store) == {SESSION: "a\ufffdb"}
