"""`refold show --as`: a context as a provider takes it."""

from pathlib import Path

import pytest

import refold as package
from tests.cli.running import refold


@pytest.fixture
def broken(talking: Path) -> Path:
    """The database, with a call that has no output at the end of `support`."""
    with package.open(talking) as store:
        store.chat("support").add_function_call("lookup", "{}", call_id="c2")
    return talking


def test_exact_and_valid(broken: Path) -> None:
    """OpenAI's form shows what is there; with --valid what would be sent."""
    exact = refold("show", "support", "--as", "openai", db=broken).json
    valid = refold("show", "support", "--as", "openai", "--valid", db=broken).json
    with package.open(broken) as store:
        chat = store.chat("support")
        assert (exact, valid) == (chat.to_openai_messages(exact=True), chat.to_openai_messages())

    assert (exact[-1]["role"], valid[-1]["role"]) == ("assistant", "tool")


def test_anthropic(broken: Path) -> None:
    """The fields of a request; the past too."""
    shown = refold("show", "support", "--as", "anthropic", db=broken).json
    with package.open(broken) as store:
        messages, system = store.chat("support").to_anthropic_messages()

    assert shown == {"system": system, "messages": messages}
    assert refold("show", "support@2", "--as", "anthropic", db=broken).json["system"] == "Be brief."


def test_google(broken: Path) -> None:
    """As plain data, for which no package is needed."""
    shown = refold("show", "support", "--as", "google", db=broken).json
    with package.open(broken) as store:
        contents, system = store.chat("support").to_google_json()

    assert shown == {"system_instruction": system, "contents": contents}


def test_openai_responses(broken: Path) -> None:
    """The other API of OpenAI."""
    shown = refold("show", "support", "--as", "openai-responses", db=broken).json
    with package.open(broken) as store:
        given, instructions = store.chat("support").to_openai_responses()

    assert shown == {"instructions": instructions, "input": given}


def test_what_is_not_there_is_left_out(talking: Path) -> None:
    """A field that is null would be refused."""
    with package.open(talking) as store:
        store.chat("bare").add_message("user", "hi")

    for form, fields in (
        ("anthropic", {"messages"}), ("google", {"contents"}), ("openai-responses", {"input"})
    ):  # fmt: skip
        assert {*refold("show", "bare", "--as", form, db=talking).json} == fields


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--valid"], "--valid goes with --as openai"),
        (["--as", "google", "--valid"], "--valid goes with --as openai or anthropic"),
        (["--as", "google", "--tail", "2"], "--tail would take apart what belongs together here: `refold fork"),
        (["--as", "openai-responses", "--tail", "2"], "--tail would take apart"),
        (["--as", "anthropic", "--tail", "2"], "--tail would take apart"),
        (["--as", "openai-responses", "--valid"], "--valid goes with --as openai or anthropic"),
        (["--as", "openai", "--valid", "--tail", "2"], "--tail would take apart"),
        (["--evicted", "--tail", "2"], "--tail does not go with --evicted"),
        (["--evicted", "--as", "openai"], "--evicted goes with --as text or json"),
    ],
)
def test_options_that_do_not_go_together(talking: Path, arguments: list[str], fault: str) -> None:
    """One line says why."""
    ended = refold("show", "support", *arguments, db=talking)

    assert ended.code == 2
    assert ended.fault.startswith(fault)
