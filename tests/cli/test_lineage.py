"""`refold log --graph`: how contexts come from each other, as lanes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold as package
from refold.infrastructure.views.fork_graph import Family, Point, drawn, families
from refold.projections.catalogue import CatalogueRow
from refold.projections.lineage import LineageRow
from tests.cli.running import refold
from tests.domain.strategies import PROPERTY

MANY = 1_000


async def team(path: Path) -> None:
    """
    Put a plan into a database, with two forks that are merged into it, a fork of its past, and a queue with a branch.
    """
    with package.open(path, synchronous="NORMAL") as store:
        plan = store.chat("plan", agent="lead")
        plan.add_message("user", "go")
        helpers = [plan.fork(name) for name in ("one", "two")]
        for helper in helpers:
            helper.add_message("assistant", helper.id)
            await plan.merge(helper)
        plan.at(2).fork("again")
        store.queue("notes").branch(context_id="copy")
        store.chat("alone").add_message("user", "hello")


def without_times(out: str) -> list[str]:
    """Return lines without the time, which is another one each time, and without the columns."""
    return [" ".join(word for word in line.split() if not word.endswith("Z")) for line in out.splitlines()]


async def test_forks_and_merges_are_lanes(tmp_path: Path) -> None:
    """A line for each, beneath what it comes from; contexts that have nothing to do with others have one line."""
    await team(tmp_path / "x.db")

    lines = without_times(refold("log", "--graph", db=tmp_path / "x.db").out)

    assert lines == [
        "* plan@1 opened",
        "+-* one@1 forked from plan@2 by lead",
        "| * one@2 head",
        "+-|-* two@1 forked from plan@2 by lead",
        "| | * two@2 head",
        "+-|-|-* again@1 forked from plan@2 by lead, head",
        "*-+ | plan@3 merged one@2 by lead",
        "*---+ plan@4 merged two@2 by lead, head",
        "* queue:notes@1 opened, head",
        "+-* queue:copy@1 branched from queue:notes@1, head",
        "* alone@2 head",
    ]


async def test_one_family_alone(tmp_path: Path) -> None:
    """A context brings all that it has to do with; JSON has the same points."""
    await team(tmp_path / "x.db")

    lines = without_times(refold("log", "copy", "--graph", db=tmp_path / "x.db").out)
    [opened, branched] = refold("log", "queue:notes", "--graph", "--json", db=tmp_path / "x.db").json

    assert len(lines) == 2
    assert (opened["kind"], opened["is_head"], opened["sources"]) == ("opened", True, [])
    assert (branched["stream"], branched["kind"]) == ("queue:copy", "branched")
    assert branched["sources"] == [{"stream": "queue:notes", "version": 1}]


def test_rounds_go_back(sales: Path) -> None:
    """A run that has the graph of an earlier round is drawn from it."""
    lines = without_times(refold("log", "mia/sales/1/0", "--graph", db=sales).out)

    assert "+-* run:mia/sales/1/0@2 goes back over run:mia/sales/0/0@9 by mia" in lines


async def test_lines_end_at_the_edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the width is known."""
    await team(tmp_path / "x.db")
    monkeypatch.setenv("COLUMNS", "50")

    assert max(map(len, refold("log", "--graph", db=tmp_path / "x.db").out.splitlines())) == 50


WITHOUT_GRAPH = "--follow|--limit 1|--tail 1|--type opened|--without opened|--who x|--after 1|air-1@1"


@pytest.mark.parametrize("arguments", WITHOUT_GRAPH.split("|"))
def test_what_does_not_go_with_a_graph(database: Path, arguments: str) -> None:
    """It is about contexts, as they are now."""
    ended = refold("log", "--graph", *arguments.split(), db=database)

    assert ended.code == 2
    assert "--graph" in ended.fault


# Histories: each step opens, forks, writes to or merges one of the contexts that there are.
STEPS = st.lists(st.tuples(st.sampled_from("owwffm"), st.integers(0, 99), st.integers(0, 99)), max_size=40)


def history(steps: list[tuple[str, int, int]]) -> tuple[list[CatalogueRow], list[LineageRow]]:
    """Return what the projections know after some steps."""
    heads: dict[str, int] = {}
    opened: dict[str, int] = {}
    edges: list[LineageRow] = []
    for at, (step, one, other) in enumerate(steps, 1):
        names = list(heads)
        if step == "o" or not names:
            heads[f"chat:{at}"], opened[f"chat:{at}"] = 1, at
            continue
        source, target = names[one % len(names)], names[other % len(names)]
        if step == "f":
            edges.append(edge("forked", source, max(1, heads[source] - other % 3), f"chat:{at}", 1, at))
            heads[f"chat:{at}"], opened[f"chat:{at}"] = 1, at
            continue
        heads[target] += 1
        if step == "m" and source != target:
            edges.append(edge("merged", source, heads[source], target, heads[target], at))
    rows = [
        CatalogueRow(key=name, kind="chat", id=name[5:], version=head, opened_at=opened[name], changed_at=opened[name])
        for name, head in heads.items()
    ]
    return rows, edges


def edge(kind: str, source: str, source_version: int, target: str, version: int, at: int) -> LineageRow:
    """Return an edge from one context to another."""
    return LineageRow(
        key=f"{target}@{version:010}/0", kind=kind, how="", source=source, source_version=source_version, target=target,
        target_version=version, lane=-1, number=at, recorded_at=at, actor="", cause="", correlation_id="",
    )  # fmt: skip


def source_point(family: Family, point: Point) -> Point:
    """Return the point that the source of another one lies at, or behind."""
    [source] = point.sources
    return [one for one in family[source.stream] if one.version <= source.version or one.version == 1][-1]


@PROPERTY
@given(steps=STEPS)
def test_every_history_can_be_drawn(steps: list[tuple[str, int, int]]) -> None:
    """Each point once, behind what it comes from, in the lane of its context, joined with that of its source."""
    rows, edges = history(steps)
    found = families(rows, edges)

    assert sorted(stream for family in found for stream in family) == sorted(row.key for row in rows)
    for family in found:
        lines = list(drawn(family, 1_000))
        places = {(point.stream, point.version): place for place, (_, point) in enumerate(lines)}
        lanes = {point.stream: text.index("*") for text, point in lines}
        assert len(places) == len(lines) == sum(map(len, family.values()))
        for text, point in lines:
            assert text.count("*") == 1
            assert lanes[point.stream] == text.index("*")
            assert [one for one, _ in enumerate(text) if text[one] == "+"] == [
                lanes[source.stream] for source in point.sources
            ]
            if point.sources:
                before = source_point(family, point)
                assert places[before.stream, before.version] < places[point.stream, point.version]
        for points in family.values():
            order = [places[point.stream, point.version] for point in points]
            assert order == sorted(order)


@PROPERTY
@given(steps=STEPS)
def test_a_fork_stands_before_what_its_parent_did_then(steps: list[tuple[str, int, int]]) -> None:
    """So that its line leaves the parent's lane where it was forked."""
    for family in families(*history(steps)):
        order = [point for _, point in drawn(family, 1_000)]
        for fork in (point for point in order if point.kind == "forked"):
            points = family[fork.sources[0].stream]
            behind = points[points.index(source_point(family, fork)) + 1 :]
            assert not behind or order.index(fork) < order.index(behind[0])


def test_many_forks_take_few_lanes() -> None:
    """A thousand forks of one context, or of one another, lie beside two lanes at most."""
    star = history([("o", 0, 0), *[("f", 0, 0)] * MANY])
    chain = history([("o", 0, 0), *[("f", place, 0) for place in range(MANY)]])

    for rows, edges in (star, chain):
        [family] = families(rows, edges)
        lines = list(drawn(family, 24))
        assert len(lines) == MANY + 1
        assert max(len(text) for text, _ in lines) <= 5


def test_what_does_not_fit_is_not_drawn() -> None:
    """More lanes than there is room for end with an ellipsis."""
    rows, edges = history([("o", 0, 0), *[("f", 0, 0)] * 9, *[("m", place, 0) for place in range(1, 10)]])
    [family] = families(rows, edges)

    lines = [text for text, _ in drawn(family, 4)]

    assert lines[3:5] == ["+-|-|-*", "+-|-|-|- …"]
    assert max(map(len, lines)) == len(lines[4])
