"""The documents about frameworks do what they say; models answer from a script."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import set_tracing_disabled
from agents.models.multi_provider import MultiProvider

from tests.docs.examples import Reader
from tests.docs.markdown import blocks, name_of
from tests.docs.test_examples import FRAMEWORKS

from ..openai_agents.scripted_model import ScriptedModel


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A reader in an empty folder, whose models ask nobody."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MultiProvider, "get_model", lambda *_: ScriptedModel())
    set_tracing_disabled(True)
    # A sync run of an SDK makes a loop that nobody closes, unless there is one.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    made = Reader(tmp_path, name="example", url=None)
    yield made
    made.module.store.close()
    loop.close()


@pytest.mark.parametrize("path", FRAMEWORKS, ids=name_of)
def test_the_examples_work(path: Path, reader: Reader) -> None:
    """A reader who does everything in a document, in order, sees what it says."""
    for block in blocks(path):
        reader.follow(block, path)
