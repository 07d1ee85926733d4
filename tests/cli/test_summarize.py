"""`refold summarize`: a model behind a server on this machine tells what was said."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.protocols import OpenAI
from tests.adapters.server import Answer, Server, refusal, serving
from tests.cli.running import refold
from tests.cli.talks import said, versions

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")


@pytest.fixture(autouse=True)
def keyless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no key of the user be found."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that OpenAI's client takes for OpenAI."""
    with serving() as running:
        monkeypatch.setenv("OPENAI_API_KEY", "key-1")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        yield running


def test_a_summary_takes_the_place_of_what_it_tells(talking: Path, server: Server) -> None:
    """The instructions and the last turns stay."""
    server.answers = [Answer([*OpenAI.texts("Order 7 is ", "under way."), *OpenAI.end()])]
    ended = refold("summarize", "support", "--with", "openai:model-1", "--keep-turns", 1, db=talking)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "chat:support @8: 4 items summarised, tokens 54 -> 28 (-26)\n  [Conversation Summary] Order 7 is under way.\n"
    )
    assert said(talking, "support") == ["Be brief.", "[Conversation Summary]\nOrder 7 is under way.", "And order 8?"]
    assert server.body["model"] == "model-1"


def test_a_summary_is_undone(talking: Path, server: Server) -> None:
    """What it tells is back; with --json the shape is the same."""
    before = said(talking, "support")
    server.answers = [Answer([*OpenAI.texts("ok"), *OpenAI.end()])]
    arguments = ["--with", "openai:m", "--keep-turns", 1, "--json"]
    made = refold("summarize", "support", *arguments, db=talking).json
    undone = refold("summarize", "support", "--undo", "--json", db=talking).json

    assert {*made} == {*undone} == {
        "context", "kind", "version", "items", "tokens_before", "tokens_after", "model", "summary_id", "summary",
    }  # fmt: skip
    assert (made["items"], made["summary"]) == (4, "[Conversation Summary]\nok")
    assert (undone["items"], undone["summary_id"], undone["tokens_after"]) == (4, None, made["tokens_before"])
    assert said(talking, "support") == before


def test_nothing_to_tell(talking: Path, server: Server) -> None:
    """The model is not asked."""
    ended = refold("summarize", "support", "--with", "openai:m", "--keep-turns", 2, db=talking)

    assert ended.code == 0
    assert ended.err == "note: there is nothing to summarise before what is kept: nothing was changed\n"
    assert (server.requests, versions(talking)) == ([], {"support": 7})


def test_a_model_that_fails_changes_nothing(talking: Path, server: Server) -> None:
    """Its own words are in the one line."""
    server.answers = [refusal(401, {"error": {"message": "no such key"}})]
    ended = refold("summarize", "support", "--with", "openai:m", "--keep-turns", 1, db=talking)

    assert ended.code == 1
    assert ended.fault.startswith("openai:m wrote no summary, so nothing was changed: the model failed: ")
    assert "no such key" in ended.fault
    assert versions(talking) == {"support": 7}


@pytest.mark.parametrize(
    ("model", "package", "variables"),
    [
        ("openai:gpt-5", "openai", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "anthropic", "ANTHROPIC_API_KEY"),
        ("google:gemini-2.5-pro", "google.genai", "GOOGLE_API_KEY or GEMINI_API_KEY"),
    ],
)
def test_without_a_key_it_is_refused(talking: Path, model: str, package: str, variables: str) -> None:
    """Clearly, before anything is done."""
    if importlib.util.find_spec(package.partition(".")[0]) is None:
        pytest.skip(f"{package} is not installed")
    ended = refold("summarize", "support", "--with", model, db=talking)

    assert (ended.code, ended.fault) == (1, f"{model} cannot be asked without a key: set {variables}")
    assert versions(talking) == {"support": 7}


def test_without_the_package_it_is_refused(talking: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    ended = refold("summarize", "support", "--with", "openai:m", db=talking)

    assert ended.code == 1
    assert 'pip install "refold[openai]"' in ended.fault


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        ([], 2, "give one of --with MODEL and --undo"),
        (["--undo", "--with", "openai:m"], 2, "give one of --with MODEL and --undo"),
        (["--with", "gpt-5"], 2, "Invalid value for '--with': 'gpt-5' should be one of openai:NAME, anthropic:NAME"),
        (["--with", "openai:"], 2, "Invalid value for '--with': 'openai:' should be"),
        (["--with", "openai:m", "--keep-turns", 0], 2, "Invalid value for '--keep-turns'"),
        (["--undo"], 1, "chat:support shows no summary that could be undone"),
    ],
)
def test_what_cannot_be_summarized(talking: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line says why."""
    ended = refold("summarize", "support", *arguments, db=talking)

    assert ended.code == code
    assert ended.fault.startswith(fault)
