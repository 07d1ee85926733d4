"""Importing into contexts that were edited since: what was imported counts, not what can be seen."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import refold
from refold.domain.chat.items import ChatMessage
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import InvalidInputError
from refold.infrastructure.importing import import_file
from tests.importing.shapes import said
from tests.importing.transcripts import HELLO, TALK, written


def evict(chat: refold.ChatContext) -> None:
    """Take the first item out of the view."""
    chat.evict(chat.items[0].id)


def insert(chat: refold.ChatContext) -> None:
    """Put an item in front."""
    chat.insert(ChatMessage(id="late", created_at=1.0, role=ChatRole.USER, content=["Before all."]))


def merge(chat: refold.ChatContext) -> None:
    """Take the answer of a fork."""
    branch = chat.fork("branch")
    branch.add_message("assistant", "There, too.")
    asyncio.run(chat.merge(branch))


EDITS = [evict, insert, merge, refold.ChatContext.clear]


@pytest.mark.parametrize("edit", EDITS)
def test_the_same_file_adds_nothing(
    store: refold.Store, tmp_path: Path, edit: Callable[[refold.ChatContext], None]
) -> None:
    """An edit of the view is no change of the transcript."""
    path = written(tmp_path / "x.json", TALK)
    import_file(store, path)
    edit(store.chat("x-1"))

    assert import_file(store, path).unchanged == 1


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_that_has_grown_appends_its_tail(
    store: refold.Store, tmp_path: Path, edit: Callable[[refold.ChatContext], None]
) -> None:
    """Behind whatever is there; what was evicted stays so."""
    path = written(tmp_path / "x.json", TALK)
    import_file(store, path)
    edit(store.chat("x-1"))
    seen = store.chat("x-1").to_openai_messages(exact=True)
    report = import_file(store, written(path, [*TALK, said("user", "Thanks.")]))

    assert (report.extended, report.messages) == (1, 1)
    assert store.chat("x-1").to_openai_messages(exact=True) == [*seen, said("user", "Thanks.")]


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_that_has_changed_is_still_refused(
    store: refold.Store, tmp_path: Path, edit: Callable[[refold.ChatContext], None]
) -> None:
    """Evicting what was imported does not let another text take its place."""
    path = written(tmp_path / "x.json", TALK)
    import_file(store, path)
    edit(store.chat("x-1"))
    before = store.now()
    written(path, [said("user", "hullo"), *TALK[1:]])

    with pytest.raises(InvalidInputError, match=r"messages\[0\] differs from that of"):
        import_file(store, path)
    written(path, TALK[:2])
    with pytest.raises(InvalidInputError, match=r"messages\[2\] is missing"):
        import_file(store, path)
    assert store.now() == before


def test_what_was_said_and_evicted_since_still_counts(store: refold.Store, tmp_path: Path) -> None:
    """Two continuations of one conversation are not mixed, whatever can be seen of one."""
    path = written(tmp_path / "x.json", TALK)
    import_file(store, path)
    chat = store.chat("x-1")
    chat.evict(chat.add_message("user", "And another thing.").id)
    assert import_file(store, path).unchanged == 1
    written(path, [*TALK, HELLO])

    with pytest.raises(InvalidInputError, match=r"messages\[4\] differs"):
        import_file(store, path)


def test_a_fork_is_not_filled(store: refold.Store, tmp_path: Path) -> None:
    """A context that began as a fork was never imported."""
    store.chat("talk").fork("x-1")
    before = store.now()

    with pytest.raises(InvalidInputError, match=r"'x-1', which is a fork of chat:talk: import the file with another"):
        import_file(store, written(tmp_path / "x.json", TALK))
    assert store.now() == before
