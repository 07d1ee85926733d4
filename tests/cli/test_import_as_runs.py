"""`refold import --as-runs`: each conversation becomes the runs of a session."""

from pathlib import Path

import refold as package
from tests.cli.running import refold
from tests.importing.shapes import asked, call, said
from tests.importing.transcripts import HELLO, TALK, run, written


def test_each_question_is_a_run(tmp_path: Path) -> None:
    """What was recorded is said; the second time nothing is."""
    path = written(tmp_path / "air.json", [run(0, *TALK, said("user", "And now?")), run(1, HELLO, reward=0)])

    assert refold("import", path, "--as-runs", "--user", "mia") == (
        0, "refold.db: 3 runs: 3 added; 6 messages as 6 nodes in mia/air-0/0/0, mia/air-0/1/0, mia/air-1/0/0\n", ""
    )  # fmt: skip
    assert refold("import", path, "--as-runs", "--user", "mia").out == "refold.db: 3 runs: 3 unchanged\n"
    with package.open("refold.db", read_only=True) as store:
        assert [row.id for row in store.contexts()] == ["mia/air-0/0/0", "mia/air-0/1/0", "mia/air-1/0/0"]
        query = store.run("mia", "air-1", create=False).node("Query(query00000)")
    beside = {"source": "air.json", "task_id": 1, "trial": 0, "reward": 0}
    assert query.extra["attributes"] == beside


def test_the_user_is_the_import_where_none_is_named(tmp_path: Path) -> None:
    """A run belongs to somebody; who acted is the import in any case."""
    refold("import", written(tmp_path / "x.json", [HELLO]), "--as-runs")

    with package.open("refold.db", read_only=True) as store:
        assert [(row.user, row.changed_by) for row in store.contexts()] == [("import", "import")]


def test_a_file_that_cannot_be_runs_writes_nothing(tmp_path: Path) -> None:
    """The fault names the file and the conversation."""
    path = written(tmp_path / "x.json", [run(0, *TALK), run(1, asked(call("a", "look_up")))])
    fault = refold("import", path, "--as-runs").fault

    assert fault == f"{path}, run 2: the transcript has no message of a user: a run begins with a query"
    assert refold("contexts", "--json").json == []


def test_a_transcript_that_was_changed_is_refused(tmp_path: Path) -> None:
    """Nothing of the file is recorded."""
    path = written(tmp_path / "x.json", [run(1, *TALK)])
    refold("import", path, "--as-runs")
    written(path, [run(0, HELLO), run(1, said("user", "hullo"))])

    fault = refold("import", path, "--as-runs").fault
    assert fault.startswith(f"{path}, run 2: round 0 (from 0) differs from the run 'run:import/x-1/0/0' that is there")
    assert len(refold("contexts", "--json").json) == 1
