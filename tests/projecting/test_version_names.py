"""The named versions of all contexts of a store."""

from __future__ import annotations

import asyncio
from typing import cast

import refold
from refold.infrastructure.views.fork_graph import drawn, facts_of, families
from refold.projections.version_names import VersionNameRow


def rows_of(store: refold.Store, under: str = "") -> list[VersionNameRow]:
    """Return the rows of all names, or of those of a context, by context and version."""
    found = cast("list[VersionNameRow]", store.rows("version_names", under=under))
    return sorted(found, key=lambda row: (row.context, row.version))


def named(store: refold.Store, under: str = "") -> list[tuple[str, str, int, int]]:
    """Return context, name, version, and the version that named it."""
    return [(row.context, row.name, row.version, row.named_at) for row in rows_of(store, under)]


async def _fill(store: refold.Store) -> None:
    for name in ("a", "a-b"):
        chat = store.chat(name)
        chat.add_message("user", "q")
        with refold.acting(actor="mia"):
            chat.name_version("asked")
    pool = store.pool("a")
    await pool.add(refold.PoolItem("x", "x", "x"))
    pool.name_version("asked")
    run = store.run("u", "s", 0)
    run.register_query("why?")
    run.name_version("asked")


def test_the_names_of_all_kinds_of_contexts(store: refold.Store) -> None:
    """Sorted by context and version; one context has its own only."""
    asyncio.run(_fill(store))

    assert [row[:3] for row in named(store)] == [
        ("chat:a", "asked", 2), ("chat:a-b", "asked", 2), ("pool:a", "asked", store.pool("a").version - 1),
        ("run:u/s/0/0", "asked", store.run("u", "s", 0).version - 1),
    ]  # fmt: skip
    assert named(store, "chat:a@") == [("chat:a", "asked", 2, 3)]
    assert [row.actor for row in rows_of(store)] == ["mia", "mia", "", ""]


def test_a_name_that_is_given_again_moves(store: refold.Store) -> None:
    """As `chat.at(name)` has it; an earlier version keeps none."""
    chat = store.chat("a")
    chat.add_message("user", "q")
    chat.name_version("best")
    chat.add_message("assistant", "a")
    chat.name_version("best")
    chat.name_version("last")

    assert named(store, "chat:a@") == [("chat:a", "best", 4, 5), ("chat:a", "last", 5, 6)]
    assert chat.at("best").version == 4


def test_names_are_points_between_forks_and_merges(store: refold.Store) -> None:
    """In families of several contexts; a version that is a point already has its names there."""
    chat = store.chat("a")
    chat.add_message("user", "q")
    chat.name_version("asked")
    child = chat.fork("b")
    child.name_version("begun")
    child.name_version("first")
    store.chat("alone").name_version("nobody's")

    found = families(store.contexts(), store.lineage(), rows_of(store))
    points = [
        (point.stream, point.version, point.kind, point.names) for family in found for _, point in drawn(family, 24)
    ]
    assert points == [
        ("chat:a", 1, "opened", ()), ("chat:a", 2, "named", ("asked",)), ("chat:a", 3, "head", ()),
        ("chat:b", 1, "forked", ("begun",)), ("chat:b", 2, "named", ("first",)), ("chat:b", 3, "head", ()),
        ("chat:alone", 2, "head", ()),
    ]  # fmt: skip
    forked = next(point for family in found for _, point in drawn(family, 24) if point.kind == "forked")
    assert list(facts_of(forked)) == ["forked from a@3", "named begun"]
