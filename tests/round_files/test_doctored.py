"""Files of rounds and of messages that somebody changed: refused with what is wrong, or every answer works."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure import files as foreign_json
from refold.infrastructure.message_files import read_messages_file, write_messages_file
from refold.infrastructure.round_files import import_round_files, write_round_files
from tests.support.doctored import doctored, every_answer

from .rounds import SESSION, TALK, USER, busy_run, next_run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of two rounds, in the folder of their session."""
    folder = tmp_path_factory.mktemp("whole") / "session"
    with refold.open(":memory:") as store:
        for run in (busy_run(store), next_run(store)):
            write_round_files(run, folder)
    return folder


@pytest.mark.parametrize("name", ["Run0_Sub0.json", "Run0_Sub0.meta.json", "Run1_Sub0.json"])
def test_rounds_by_chance(whole: Path, tmp_path: Path, name: str) -> None:
    """Whatever was changed: the file is refused by its name and neither round comes in, or every answer works."""
    faults: list[str] = []
    for seed in range(40):
        folder = tmp_path / f"session {seed}"
        shutil.copytree(whole, folder)
        (folder / ".context" / name).write_bytes(doctored((whole / ".context" / name).read_bytes(), seed))
        with refold.open(":memory:") as store:
            try:
                import_round_files(store, folder, user_id=USER, session_id=SESSION)
            except InvalidInputError as error:
                faults.append(str(error))
            else:
                faults.append("")
                every_answer(store, tmp_path)
            assert bool(faults[-1]) == (store.now().heads == ()), (seed, faults[-1])

    assert all(name[:9] in fault for fault in faults if fault)
    assert 0 < sum(map(bool, faults)) < len(faults)


@pytest.mark.parametrize("clean", [True, False])
def test_messages_by_chance(tmp_path: Path, clean: bool) -> None:
    """A file of messages is read, or refused by its name."""
    write_messages_file(tmp_path / "whole", TALK, clean=False)
    path, refused = tmp_path / "doctored", 0
    for seed in range(300):
        path.write_bytes(doctored((tmp_path / "whole").read_bytes(), seed))
        try:
            read_messages_file(path, clean=clean)
        except InvalidInputError as error:
            refused += str(path) in str(error)

    assert 0 < refused < 300


@pytest.mark.parametrize("calls", [7, True, 1.5])
def test_calls_that_are_no_list(tmp_path: Path, calls: object) -> None:
    """They are refused by the index of their message; what is nothing are no calls."""
    path = tmp_path / "messages"
    said = {"role": "assistant", "content": "x"}
    path.write_text(json.dumps([said, {**said, "tool_calls": calls}]))
    with pytest.raises(InvalidInputError, match=f"{path}: message 1 is no record of a message"):
        read_messages_file(path)

    path.write_text(json.dumps([{**said, "tool_calls": 0}]))
    assert [one.content for one in read_messages_file(path)] == ["x"]


def test_files_without_an_end(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of a file is read than FILE_BYTES_MAX."""
    monkeypatch.setattr(foreign_json, "FILE_BYTES_MAX", 10_000)
    shutil.copytree(whole, tmp_path / "session")
    graph = tmp_path / "session" / ".context" / "Run1_Sub0.json"
    graph.unlink()
    graph.symlink_to("/dev/zero")

    with (
        refold.open(":memory:") as store,
        pytest.raises(InvalidInputError, match=r"Run1_Sub0\.json is over FILE_BYTES_MAX"),
    ):
        import_round_files(store, tmp_path / "session", user_id=USER, session_id=SESSION)
    with pytest.raises(InvalidInputError, match="/dev/zero is over FILE_BYTES_MAX"):
        read_messages_file("/dev/zero")
