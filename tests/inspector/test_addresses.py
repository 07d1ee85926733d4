"""
One table of addresses, on the command line and in the page's URLs: both show the same version of the same context.

An address that one of them refuses, the other refuses too. There is one difference: where a chat and another context
have the same id, the page takes the bare id for the chat, and the command line asks for the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

import refold
from refold.domain.clock import exact
from tests.cli.running import refold as run

from .browser import Served, Watched, apart

Write = Callable[[refold.Store], str]


def _events(store: refold.Store) -> list[refold.RecordedEvent]:
    return store.log.read("chat:a")


def _time(store: refold.Store, ending: str) -> str:
    """Return the time of the twelfth event, with another zone."""
    return exact(_events(store)[11].recorded_at).removesuffix("Z") + ending


# Addresses of one version each, as they are typed; those that need something of the store are made of it.
VERSIONS: dict[str, str | Write] = {
    "the newest": "a",
    "with its kind": "chat:a",
    "a version": "a@12",
    "with zeros": "a@012",
    "with a sign": "a@+12",
    "from the end": "a@-5",
    "the last of the past": "a@-1",
    "a queue": "queue:q@2",
    "a queue by its id": "q2@1",
    "a pool": "pool:p@-1",
    "a window": "window:w@3",
    "a memory, with an encoded id": "memory:user:mia%40example.org@2",
    "a run": "run:mia/s1/1/0@3",
    "a time": lambda store: "a@" + _time(store, "Z"),
    "a time with an offset": lambda store: "a@" + _time(store, "+00:00"),
    "a day": "a@2099-01-01",
    "a position": lambda store: f"a@pos:{_events(store)[11].position}",
    "a name": "side@here",
    "an item": lambda store: f"a@item:{store.chat('a', create=False).items[2].id}",
    "a call": "a@item:c3",
    "a call by its id alone": "a@c3",
    "when it happened": "a@happened:2099-01-01",
}
RANGES = {
    "two versions": "a@5..29",
    "to the newest": "a@5..",
    "from the beginning": "a@..12",
    "from the end": "a@-9..-2",
    "a name and a version": "side@2..here",
    "backwards": "a@29..5",
}
REFUSED = {
    "no version": "a@999",
    "before the first": "a@-999",
    "an empty version": "a@",
    "two versions": "a@1@2",
    "a number of another form": "a@1e1",
    "a hexadecimal number": "a@0x5",
    "a time without a zone": "a@2026-11-21T10:00:00",
    "an unknown name": "a@nowhere",
    "an item that is not there": "a@item:none",
    "a name with a wrong kind": "queue:a@1",
    "no context": "none@1",
    "a position that is none": "a@pos:x",
    "a range without a context": "none@1..2",
    "a range to no version": "a@5..999",
}


@pytest.mark.parametrize("name", VERSIONS)
def test_an_address_means_the_same_version(
    name: str, served: Served, kept: Callable[..., Watched], place: Path
) -> None:
    """The page shows the context and the version that `refold show` prints."""
    given = VERSIONS[name]
    text = given if isinstance(given, str) else apart(given, served.store)
    shown = run("show", text, "--json", db=place).json

    page = kept().open("/c/" + quote(text, safe=":@"))
    expect(page.locator("input.version")).to_have_value(f"@{shown['version']}")
    stream = f"{shown['kind']}:{shown['context']}"
    expect(page.locator("h1")).to_have_text(stream.removeprefix("chat:"))


@pytest.mark.parametrize("name", RANGES)
def test_a_range_means_the_same_versions(name: str, kept: Callable[..., Watched], place: Path) -> None:
    """The page compares the two versions that `refold diff` compares."""
    shown = run("diff", RANGES[name], "--stat", "--json", db=place).json
    sides = [f"{shown[side]['context']}@{shown[side]['version']}" for side in ("from", "to")]

    page = kept().open("/c/" + quote(RANGES[name], safe=":@"))
    expect(page.locator("h1")).to_have_text(" → ".join(sides))


@pytest.mark.parametrize("name", REFUSED)
def test_an_address_is_refused_by_both(name: str, kept: Callable[..., Watched], place: Path) -> None:
    """The command fails, and the page shows a fault."""
    text = REFUSED[name]
    code = run("diff" if ".." in text else "show", text, db=place).code
    watched = kept()
    watched.allowed = ["400", "404"]

    watched.open("/c/" + quote(text, safe=":@"))
    expect(watched.page.get_by_role("alert")).to_be_visible()
    assert code in (1, 2)


def test_an_id_of_two_kinds(served: Served, watched: Watched, place: Path) -> None:
    """A bare id is the chat's on the page; the command line, where nobody sees the kind, asks for it."""
    apart(lambda: (served.store.queue("two"), served.store.chat("two")))

    assert "chat:two or queue:two" in run("show", "two", db=place).fault
    expect(watched.open("/c/two").locator(".headline .tag")).to_have_text("chat")
    expect(watched.open("/c/queue:two").locator(".headline .tag")).to_have_text("queue")
