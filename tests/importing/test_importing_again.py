"""Importing again: nothing twice, what has been added is appended, what has changed is refused."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import ConcurrencyError, InvalidInputError
from refold.infrastructure.importing import ImportReport, import_file, import_runs, read_runs
from tests.importing.shapes import answered, asked, call, said
from tests.importing.transcripts import HELLO, TALK, as_lines, kept, run, written


def counts(report: ImportReport) -> tuple[int, int, int, int, int]:
    """Return contexts added, extended and unchanged, messages and items written."""
    return report.added, report.extended, report.unchanged, report.messages, report.items


def test_the_first_time_everything_is_written(store: refold.Store, tmp_path: Path) -> None:
    """A message with text and a call is two items."""
    report = import_file(store, written(tmp_path / "x.json", [run(0, *TALK), run(1, HELLO)]))

    assert counts(report) == (2, 0, 0, 5, 6)
    assert [(one.id, one.outcome, one.messages, one.items) for one in report.contexts] == [
        ("x-0", "added", 4, 5),
        ("x-1", "added", 1, 1),
    ]


def test_the_same_file_again_adds_nothing(store: refold.Store, tmp_path: Path) -> None:
    """Nor does it write anything at all."""
    path = written(tmp_path / "x.json", [run(0, *TALK), run(1, HELLO)])
    import_file(store, path)
    before = store.now()

    assert counts(import_file(store, path)) == (0, 0, 2, 0, 0)
    assert store.now() == before


def test_a_run_is_one_append(store: refold.Store, tmp_path: Path) -> None:
    """Opening and items come at one time, so no reader sees one without the other."""
    import_file(store, written(tmp_path / "x.json", TALK))
    history = store.chat("x-1", create=False).history()

    assert len({recorded.recorded_at for recorded in history}) == 1


def test_a_file_that_has_grown_appends_its_tail(store: refold.Store, tmp_path: Path) -> None:
    """Runs that are new are added, runs that are longer extended, the rest is let be."""
    path = written(tmp_path / "x.json", [run(0, *TALK[:2]), run(1, HELLO)])
    import_file(store, path)
    first = store.chat("x-0", create=False).recorded_items()
    written(path, [run(0, *TALK), run(1, HELLO), run(2, HELLO)])

    assert counts(import_file(store, path)) == (1, 1, 1, 3, 3)
    assert kept(store) == {"x-0": TALK, "x-1": [HELLO], "x-2": [HELLO]}
    items = store.chat("x-0", create=False).recorded_items()
    assert items[: len(first)] == list(first)


def test_a_tail_has_the_ids_it_would_have_had_at_once(store: refold.Store, tmp_path: Path) -> None:
    """And an output that comes later still takes the name of its call."""
    path = written(tmp_path / "x.json", [asked(call("a", "look_up"))])
    import_file(store, path)
    import_file(store, written(path, [asked(call("a", "look_up")), answered("a")]))
    (whole,) = read_runs([path])

    said_later = store.chat("x-1", create=False).recorded_items()
    assert [item.id for item in said_later] == [item.id for group in whole.groups for item in group]
    assert said_later[1].name == "look_up"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changed", "index"),
    [
        ([said("user", "hullo"), *TALK[1:]], 0),
        ([*TALK[:3], said("assistant", "There.")], 3),
        ([*TALK[:1], asked(call("a", "look_up", "[]"), content="One moment."), *TALK[2:]], 1),
        ([*TALK[:2], answered("a", "found", x=1), *TALK[3:]], 2),
        ([*TALK[:2], HELLO, *TALK[2:]], 2),
    ],
)
def test_a_file_that_has_changed_is_refused(
    store: refold.Store, tmp_path: Path, changed: list[Any], index: int
) -> None:
    """The error names the run and the first message that differs, and nothing is written for any run."""
    path = written(tmp_path / "x.json", [run(0, HELLO), run(1, *TALK)])
    import_file(store, path)
    before = store.now()
    written(path, [run(0, HELLO, said("user", "more")), run(1, *changed)])

    with pytest.raises(InvalidInputError) as caught:
        import_file(store, path)

    assert str(caught.value).startswith(f"{path}, run 2, messages[{index}] differs from that of ")
    assert "'x-1'" in str(caught.value)
    assert store.now() == before


def test_a_file_that_was_cut_short_is_refused(store: refold.Store, tmp_path: Path) -> None:
    """What was imported and is no longer in the file has changed, too."""
    path = written(tmp_path / "x.json", TALK)
    import_file(store, path)
    written(path, TALK[:2])

    with pytest.raises(InvalidInputError, match=r"run 1, messages\[2\] is missing"):
        import_file(store, path)


def test_what_was_said_since_is_no_fault_of_the_file(store: refold.Store, tmp_path: Path) -> None:
    """The conversation may have gone on in the store: the file still adds nothing."""
    path = written(tmp_path / "x.json", TALK)
    import_file(store, path)
    chat = store.chat("x-1")
    chat.add_message("user", "And another thing.")

    assert counts(import_file(store, path)) == (0, 0, 1, 0, 0)
    assert chat.refresh() == ()


def test_a_file_and_a_store_that_both_went_on_are_told_apart(store: refold.Store, tmp_path: Path) -> None:
    """Two continuations of one conversation are not mixed."""
    path = written(tmp_path / "x.json", TALK)
    import_file(store, path)
    store.chat("x-1").add_message("user", "And another thing.")
    written(path, [*TALK, said("user", "Something else.")])

    with pytest.raises(InvalidInputError, match=r"messages\[4\] differs"):
        import_file(store, path)


def test_what_lies_beside_the_messages_stays_as_it_was(store: refold.Store, tmp_path: Path) -> None:
    """A context is opened once: the report says that it keeps what it had."""
    path = written(tmp_path / "x.json", [run(0, *TALK, reward=0)])
    import_file(store, path)
    report = import_file(store, written(path, [run(0, *TALK, reward=1)]))

    assert counts(report) == (0, 0, 1, 0, 0)
    assert len(report.notes) == 1
    assert "'x-0' keeps what it had" in report.notes[0]


def test_an_empty_context_of_that_name_is_filled(store: refold.Store, tmp_path: Path) -> None:
    """Somebody opened it before; it is extended."""
    store.chat("x-1", user="mia")

    assert counts(import_file(store, written(tmp_path / "x.json", TALK))) == (0, 1, 0, 4, 5)
    assert kept(store) == {"x-1": TALK}


def test_another_users_context_is_refused(store: refold.Store, tmp_path: Path) -> None:
    """A context belongs to the user it was opened for."""
    path = written(tmp_path / "x.json", TALK)
    import_file(store, path, user="mia")

    with pytest.raises(InvalidInputError, match="was opened with user 'mia', not 'tom'"):
        import_file(store, path, user="tom")


def test_two_runs_cannot_be_one_context(store: refold.Store, tmp_path: Path) -> None:
    """Files of one name, or keys that become the same, are told apart before anything is written."""
    (tmp_path / "b").mkdir()
    files = [written(tmp_path / "x.json", TALK), written(tmp_path / "b" / "x.json", TALK)]
    same_keys = written(tmp_path / "y.json", as_lines({"id": "1", "messages": []}, {"id": "@1", "messages": []}))

    with pytest.raises(InvalidInputError, match=r"run 1 and .*run 1 would both be the context 'x-1'"):
        read_runs(files)
    # Both ids are 1 once they can be typed, so the numbers count.
    assert [run.context_id for run in read_runs([same_keys])] == ["y-1", "y-2"]


def test_another_importer_at_the_same_time_is_noticed(
    store: refold.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the comparison and the append another program can come first: then nothing is mixed."""
    path = written(tmp_path / "x.json", TALK)
    import_file(store, path)
    written(path, [*TALK, HELLO])
    real = store.transaction

    def late(**options: Any) -> Any:
        monkeypatch.undo()
        with refold.open(tmp_path / "refold.db") as other:
            import_file(other, path)
        return real(**options)

    monkeypatch.setattr(store, "transaction", late)

    with pytest.raises(ConcurrencyError, match=r"^chat:x-1 is at version 7, .* on version 6:"):
        import_file(store, path)
    assert kept(store) == {"x-1": [*TALK, HELLO]}


def test_a_context_that_another_program_began_meanwhile(store: refold.Store, tmp_path: Path) -> None:
    """It is not written on, whatever it holds."""
    path = written(tmp_path / "x.json", TALK)
    real = store.transaction

    def late(**options: Any) -> Any:
        with refold.open(tmp_path / "refold.db") as other:
            other.chat("x-1").add_message("user", "of somebody else")
        return real(**options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "transaction", late)
        with pytest.raises(ConcurrencyError, match=r"^chat:x-1 is at version 2, this was decided on version 0:"):
            import_file(store, path)
    assert len(store.chat("x-1").items) == 1
    with pytest.raises(InvalidInputError, match="another --prefix"):
        import_file(store, path)


def test_progress_is_told_run_by_run(store: refold.Store, tmp_path: Path) -> None:
    """The callback hears of every run that was dealt with, and of how many there are."""
    told: list[tuple[int, int]] = []
    runs = read_runs([written(tmp_path / "x.json", [run(0, HELLO), run(1, HELLO), run(2)])])
    import_runs(store, runs, progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 3), (2, 3), (3, 3)]
