"""Importing a session again: what is there stays, what was appended goes on, what is new parts from it."""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.domain.errors import ConcurrencyError, InvalidInputError
from refold.infrastructure.importing import ImportReport, import_file, import_runs, read_runs
from refold.infrastructure.importing.claude_sessions import Line
from tests.domain.strategies import PROPERTY
from tests.importing.sessions import SESSION, Writing, forked_at, kept_words, result, use

FORK = f"{SESSION}-fork-1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a session's file."""
    return tmp_path / f"{SESSION}.jsonl"


def outcomes(report: ImportReport) -> list[tuple[str, str, int, int]]:
    """Return what became of each context, without the session's id."""
    return [(one.id.removeprefix(SESSION), one.outcome, one.messages, one.items) for one in report.contexts]


def branched() -> Writing:
    """Return a session with one fork."""
    session = Writing()
    first = session.talk(None, "one", "1")
    session.talk(first, "two", "2")
    session.talk(first, "three", "3")
    return session


def test_the_same_file_adds_nothing(store: refold.Store, path: Path) -> None:
    """Not a single event."""
    session = branched()
    import_file(store, session.save(path), user="mia")
    before = store.now()

    assert outcomes(import_file(store, path, user="mia")) == [("", "unchanged", 0, 0), ("-fork-1", "unchanged", 0, 0)]
    assert store.now() == before


def test_a_session_is_one_append(store: refold.Store, path: Path) -> None:
    """Whoever sees the context sees its forks; all belong to the user, and have the session."""
    import_file(store, branched().save(path), user="mia")
    times = {one.recorded_at for name in (SESSION, FORK) for one in store.chat(name).history()}

    assert len(times) == 1
    assert {(row.user, row.session, row.changed_by) for row in store.contexts()} == {("mia", SESSION, "import")}


def test_what_was_appended_goes_on(store: refold.Store, path: Path) -> None:
    """In the context and in the fork, each behind its own end."""
    session = branched()
    import_file(store, session.save(path))
    session.talk(session.lines[3], "two more", "2+")
    session.talk(session.lines[5], "three more")

    assert outcomes(import_file(store, session.save(path))) == [("", "extended", 1, 1), ("-fork-1", "extended", 2, 2)]
    assert kept_words(store) == {
        SESSION: "one | 1 | three | 3 | three more", FORK: "one | 1 | two | 2 | two more | 2+"
    }  # fmt: skip


def test_a_newer_branch_becomes_a_fork(store: refold.Store, path: Path) -> None:
    """The context keeps what it had, though it is no longer the newest; the names that are taken stay so."""
    session = branched()
    import_file(store, session.save(path))
    session.talk(session.lines[1], "four")
    session.talk(session.lines[2], "2b")

    assert outcomes(import_file(store, session.save(path))) == [
        ("", "unchanged", 0, 0), ("-fork-1", "unchanged", 0, 0), ("-fork-2", "added", 1, 1), ("-fork-3", "added", 1, 1)
    ]  # fmt: skip
    assert kept_words(store)[f"{SESSION}-fork-2"] == "one | 1 | four"
    assert forked_at(store) == {
        FORK: f"{SESSION}@3",
        f"{SESSION}-fork-2": f"{SESSION}@3",
        f"{SESSION}-fork-3": f"{FORK}@2",
    }


def test_of_two_continuations_the_newest_goes_on(store: refold.Store, path: Path) -> None:
    """The other is a fork."""
    session = Writing()
    last = session.talk(None, "one", "1")
    import_file(store, session.save(path))
    session.talk(last, "two")
    session.talk(last, "three")
    import_file(store, session.save(path))

    assert kept_words(store) == {SESSION: "one | 1 | three", FORK: "one | 1 | two"}


def test_a_message_that_was_half_written_goes_on(store: refold.Store, path: Path) -> None:
    """The file was read while the assistant spoke."""
    session = Writing()
    first = session.assistant(session.user(None, "go"), "let me see", message_id="m1")
    import_file(store, session.save(path))
    called = session.assistant(first, use("c1"), message_id="m1")
    session.user(called, [result("c1")])
    report = import_file(store, session.save(path))

    assert outcomes(report) == [("", "extended", 1, 2)]
    assert kept_words(store) == {SESSION: "go | let me see +c1 | =c1"}


def test_what_was_said_in_the_store_is_not_mixed(store: refold.Store, path: Path) -> None:
    """Where both went on, the file's part is a fork; where only the store did, nothing is written."""
    session = Writing()
    last = session.talk(None, "one", "1")
    import_file(store, session.save(path))
    store.chat(SESSION).add_message("user", "mine")
    assert import_file(store, path).unchanged == 1
    session.talk(last, "two")
    import_file(store, session.save(path))

    assert kept_words(store) == {SESSION: "one | 1 | mine", FORK: "one | 1 | two"}
    assert import_file(store, path).unchanged == 2


def test_edits_and_forks_of_others_do_not_matter(store: refold.Store, path: Path) -> None:
    """What was evicted is known all the same, and a fork has it; a name that is taken is passed over."""
    session = Writing()
    last = session.talk(None, "one", "1")
    import_file(store, session.save(path))
    chat = store.chat(SESSION)
    chat.fork(FORK).add_message("user", "mine")
    chat.evict(chat.items[1].id)
    session.talk(last, "two")
    session.talk(last, "three")
    import_file(store, session.save(path))

    assert kept_words(store) == {
        SESSION: "one | three", FORK: "one | 1 | mine", f"{SESSION}-fork-2": "one | 1 | two",
    }  # fmt: skip
    assert import_file(store, path).unchanged == 2


def line(session: Writing, number: int) -> Any:
    """Return a line of a session, counted from 1."""
    return session.lines[number - 1]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda one: line(one, 1)["message"].update(content="uno"), rf"1 differs from that of the context '{SESSION}'"),
        (lambda one: line(one, 4)["message"].update(x=1), rf"4 differs from that of the context '{FORK}'"),
        (lambda one: one.lines.pop(), rf"l6 is missing, unlike in the context '{SESSION}' that was imported before"),
        (
            lambda one: line(one, 1).update(parentUuid=one.user(None, "zero")["uuid"]),
            rf"7 comes before the first one of the context '{SESSION}'",
        ),
    ],
)
def test_a_file_that_has_changed_is_refused(store: refold.Store, path: Path, change: Any, fault: str) -> None:
    """Nothing is written of any file."""
    session, other = branched(), Writing("other")
    import_file(store, session.save(path))
    change(session)
    other.talk(None, "hi")
    before = store.now()

    with pytest.raises(InvalidInputError, match=f"jsonl, line {fault}"):
        import_runs(store, read_runs([other.save(path.with_name("other.jsonl")), session.save(path)]))
    assert store.now() == before


def test_a_context_that_is_something_else_is_refused(store: refold.Store, path: Path) -> None:
    """One with items of its own, or a fork; one that was only opened is filled."""
    session = branched()
    store.chat("mine-" + SESSION).add_message("user", "mine")
    store.chat("talk").fork("fork-" + SESSION)
    store.chat("open-" + SESSION)
    for prefix in ("mine", "fork"):
        with pytest.raises(InvalidInputError, match=rf"'{prefix}-{SESSION}', which holds something else: import the"):
            import_file(store, session.save(path), prefix=prefix)

    assert import_file(store, path, prefix="open").extended == 1


def test_names_that_are_too_long_are_refused_at_once(store: refold.Store, tmp_path: Path) -> None:
    """Before anything is written, also where only that of a fork is."""
    session, before = branched(), store.now()
    runs = read_runs([session.save(tmp_path / "x.jsonl")], prefix="x" * (254 - len(SESSION)))

    with pytest.raises(InvalidInputError, match="255"):
        import_runs(store, runs)
    assert store.now() == before


def import_meanwhile(store: refold.Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have another program import a file before the next transaction of this one."""
    real = store.transaction

    def late(**options: Any) -> Any:
        monkeypatch.undo()
        with refold.open(path.with_name("refold.db")) as other:
            import_file(other, path)
        return real(**options)

    monkeypatch.setattr(store, "transaction", late)


def test_another_importer_at_the_same_time_is_noticed(
    store: refold.Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the comparison and the append another program can come first: then nothing is written twice."""
    session = Writing()
    last = session.talk(None, "one", "1")
    import_file(store, session.save(path))
    session.talk(last, "two")
    session.save(path)
    import_meanwhile(store, path, monkeypatch)

    with pytest.raises(ConcurrencyError, match=f"^chat:{SESSION} is at version 4, this was decided on version 3:"):
        import_file(store, path)
    assert kept_words(store) == {SESSION: "one | 1 | two"}


def test_a_session_that_another_importer_began_meanwhile(
    store: refold.Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as that one wrote it, and the next import finds nothing to do."""
    branched().save(path)
    import_meanwhile(store, path, monkeypatch)

    with pytest.raises(ConcurrencyError, match=f"^chat:{SESSION} is at version .* decided on version 0:"):
        import_file(store, path)
    assert {one.outcome for one in import_file(store, path).contexts} == {"unchanged"}


def test_a_session_on_a_server(ready_pg_url: str, path: Path) -> None:
    """The same contexts, forks and parts."""
    session = branched()
    with refold.open(ready_pg_url) as store:
        import_file(store, session.save(path))
        session.talk(session.lines[5], "more")
        session.talk(session.lines[0], "1b")
        assert import_file(store, session.save(path)).extended == 1

        assert kept_words(store) == {
            SESSION: "one | 1 | three | 3 | more", FORK: "one | 1 | two | 2", f"{SESSION}-fork-2": "one | 1b"
        }  # fmt: skip


@PROPERTY
@given(tree=st.lists(st.integers(0, 30), max_size=14), stops=st.sets(st.integers(1, 14), max_size=3))
def test_every_end_of_the_tree_is_a_context(tree: list[int], stops: set[int]) -> None:
    """Whatever the tree looks like, and in however many parts it comes: what is before an end is its context."""
    session = Writing()
    paths = [[session.user(None, "0")]]
    with tempfile.TemporaryDirectory() as folder, refold.open(":memory:") as store:
        file = Path(folder, "x.jsonl")
        for number, place in enumerate(tree, 1):
            if number in stops:
                import_file(store, session.save(file))
            before = paths[place % number]
            paths.append([*before, session.user(before[-1], str(number))])
        import_file(store, session.save(file))
        parents = {line["parentUuid"] for line in session.lines}
        ends = [path for path in paths if path[-1]["uuid"] not in parents]

        assert Counter(kept_words(store).values()) == Counter(
            " | ".join(line["message"]["content"] for line in path) for path in ends
        )
        assert import_file(store, file).unchanged == len(ends)


def test_outputs_that_were_cleared_leave_the_view(store: refold.Store, path: Path) -> None:
    """With their calls, from the next line on; a pinned one stays, and the past has all of them."""
    session = Writing()
    said = session.user(None, "go")
    for number in (1, 2, 3):
        said = session.user(session.assistant(said, f"look {number}", use(f"c{number}")), [result(f"c{number}")])
    import_file(store, session.save(path))
    chat = store.chat(SESSION)
    chat.pin("c2")
    metadata = {"trigger": "auto", "compactedToolIds": ["c1", "c2", 7, "of another"], "clearedAttachmentUUIDs": []}
    boundary = session.line("system", said, subtype="microcompact_boundary", microcompactMetadata=metadata)
    session.assistant(session.line("system", boundary, subtype="stop_hook_summary"), "done")
    report = import_file(store, session.save(path))

    assert kept_words(store) == {SESSION: "go | look 1 | look 2 +c2 | =c2 | look 3 +c3 | =c3 | done"}
    chat.refresh()
    assert [one.reason for one in chat.evicted_items()] == ["output cleared"] * 2
    assert any("outputs were cleared to save room" in note for note in report.notes)
    assert {context.outcome for context in import_file(store, session.save(path)).contexts} == {"unchanged"}
    session.user(session.line("system", said, subtype="microcompact_boundary", microcompactMetadata=7), "on")
    assert [context.outcome for context in import_file(store, session.save(path)).contexts] == ["unchanged", "added"]


def test_ids_of_blocks() -> None:
    """Those of one kind that are texts."""
    blocks: list[Any] = [use("a"), {"type": "tool_use", "id": 5}, {"type": "other", "id": "b"}, "text"]
    line = Line(number=1, uuid="u", parent=None, agent=None, session=None, created_at=0.0, message={}, beside={})

    assert msgspec.structs.replace(line, message={"content": blocks}).ids_of("tool_use", "id") == ["a"]
