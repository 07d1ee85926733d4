"""What the benchmarks count with: blocks in turn, medians, goals, and the text they measure on."""

import pytest

from benchmarks.rows import MICROSECONDS, MILLISECONDS, RATE, Goal, Row
from benchmarks.timing import Stats, Task, measure, of_values
from benchmarks.workload import compressibility, items, text_bytes, turns


def row(ours: float, goal: Goal | None) -> Row:
    """Return a row in which raw took a second."""
    return Row("case", "sqlite", MILLISECONDS, {"ours": of_values(ours), "raw": of_values(1.0)}, goal)


def test_blocks_take_turns() -> None:
    """Contestants are opened, run once, and then run in blocks one after the other."""
    calls: list[str] = []
    tasks = {
        name: Task(
            run=calls.append,
            prepare=lambda name=name: name,  # type: ignore[misc]
            reopen=lambda name=name: calls.append(f"open {name}"),  # type: ignore[misc]
            runs=2,
        )
        for name in ("a", "b")
    }

    measured = measure(tasks, blocks=2)

    assert calls == ["open a", "a", "open b", "b", *(["a", "a", "b", "b"] * 2)]
    assert [len(stats.first) for stats in measured.values()] == [1, 1]
    assert [len(block) for block in measured["a"].blocks] == [2, 2]


def test_first_runs_are_kept_apart() -> None:
    """A slow first run changes nothing of the warm figures."""
    stats = Stats(first=[9.0], blocks=[[1.0, 2.0, 3.0], [2.0, 4.0, 90.0]])

    assert (stats.first_run, stats.median, stats.mean) == (9.0, 3.0, 17.0)
    assert [stats.percentile(percent) for percent in (50, 95, 99)] == [2.0, 90.0, 90.0]


@pytest.mark.parametrize(
    ("ours", "goal", "met"),
    [
        (1.2, Goal(1.25), True),
        (1.3, Goal(1.25), False),
        (1.3, Goal(1.25, at_least=True), True),
        (0.0019, Goal(2, absolute=True), True),
        (0.0021, Goal(2, absolute=True), False),
        (1.0, None, None),
    ],
)
def test_goals(ours: float, goal: Goal | None, met: bool | None) -> None:
    """A goal is on the multiple of raw, or on the figure as it is shown."""
    assert row(ours, goal).is_met == met


def test_more_is_better_of_a_rate() -> None:
    """A rate is one over the time of an item, and so is its ratio to raw."""
    measured = Row("case", "sqlite", RATE, {"ours": of_values(0.25), "raw": of_values(0.5)}, Goal(2, at_least=True))

    assert (measured.shown("ours"), measured.to_raw("ours"), measured.is_met) == (4.0, 2.0, True)


def test_goals_in_words() -> None:
    """The table says what a goal is of."""
    assert Goal(1.25).text(MICROSECONDS) == "<= 1.25 x raw"
    assert Goal(2, at_least=True).text(RATE) == ">= 2 x raw"
    assert Goal(2, absolute=True).text(MILLISECONDS) == "<= 2 ms"


def test_the_workload_is_the_same_every_time() -> None:
    """The same seed gives the same text, another seed another."""
    assert items(40) == items(40)
    assert items(40) != items(40, seed=1)


def test_turns_have_the_sizes_that_are_promised() -> None:
    """User about 200 characters, call 150, output 2 KB, answer 800; call and output share their id."""
    made = turns(200)
    sizes = [sum(len(turn[place].text) for turn in made) / len(made) for place in range(4)]

    assert [item.kind for item in made[0]] == ["user", "call", "output", "answer"]
    assert made[0][1].call_id == made[0][2].call_id != made[1][1].call_id
    assert sizes == pytest.approx([200, 150, 2_000, 800], rel=0.15)


def test_the_workload_is_about_as_compressible_as_real_runs() -> None:
    """Real runs come to 1.7 singly and 4.0 by 64; made-up text must not flatter us."""
    ratio = compressibility(items(2_000))

    assert 1.6 < ratio.single < 2.3
    assert 2.7 < ratio.blocks < 4.0


def test_text_is_counted_in_bytes() -> None:
    """Contents, arguments and outputs count, names and ids do not."""
    assert text_bytes([items(1)[0]._replace(text="äb", name="name")]) == 3
