"""What is shown: secrets are hidden before a text reaches a terminal, a log line, a document or a model."""

import json
import logging
import re
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import refold
from refold.domain.detectors import DETECTORS, GROUPS
from refold.domain.errors import InvalidInputError
from refold.domain.redaction import redacted
from refold.infrastructure.cli import main
from refold.infrastructure.exchange.transcripts import export_transcripts
from refold.infrastructure.trust.redaction import LOGGERS
from tests.support.project import PACKAGES

KEY = "sk-proj-Abcdefghij0123456789Klmn"
# Made up: each has the form alone.
SECRETS = {
    "Anthropic key": "sk-ant-api03-" + "aB3" * 12,
    "OpenAI key": KEY,
    "AWS key": "AKIAIOSFODNN7EXAMPLE",
    "GitHub token": "ghp_" + "a1" * 18,
    "GitLab token": "glpat-" + "a1B2" * 5,
    "Slack token": "xoxb-123456789012-abcdef",
    "Google key": "AIza" + "a1b2C" * 7,
    "Google token": "ya29." + "a1b2" * 8,
    "Stripe key": "sk_live_" + "a1b2" * 6,
    "Hugging Face token": "hf_" + "aB" * 17,
    "npm token": "npm_" + "a1" * 18,
    "PyPI token": "pypi-AgE" + "a1" * 30,
    "SendGrid key": "SG." + "a" * 22 + "." + "b" * 43,
    "Groq key": "gsk_" + "a1" * 26,
    "xAI key": "xai-" + "a1" * 40,
    "Replicate token": "r8_" + "a" * 37,
    "Databricks token": "dapi" + "0a" * 16,
    "DigitalOcean token": "dop_v1_" + "0a" * 32,
    "Shopify token": "shpat_" + "0a" * 16,
    "Telegram token": "123456789:AA" + "a" * 33,
    "JSON web token": "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM-_",
    "e-mail": "ann.b+c@mail.example.org",
    "card number": "4111-1111-1111-1111",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: x\n\nMIIa+/=\nbc\n-----END RSA PRIVATE KEY-----",
}
# The part that is hidden is not all that is looked for.
WITHIN = {
    "AWS secret": ("aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""),
    "Azure key": ("AccountKey=", "a1B2" * 20, "=="),
    "bearer token": ("Authorization: Bearer ", "abcdef0123456789abcdef", " x"),
    "password in a URL": ("postgresql://ann:", "s3cret!", "@host/db"),
}
HARMLESS = (
    "a sentence - with 12 words, a price of 4,111.11 and a task-list-of-many-words-that-is-long",
    "risk-assessment-of-the-very-long-word sk-this-is-a-very-long-css-class-name",
    "1795645652082551 microseconds, position 4111111111111112, version 3.14.15.92.65.35.89",
    "@user said hello@ or x@y, see https://host:8080/a and git@host",
    "5f0c3f0e-8f4e-4a8e-9d4e-0123456789ab sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "the bearer of this letter, Bearer short, a PRIVATE KEY is private",
    "4222222222222222222222222 and 12345678901234567890",
)


@pytest.fixture
def hidden() -> Iterator[refold.Redactor]:
    """A redactor that is the hook of this process."""
    redactor = refold.Redactor()
    refold.redact(redactor)
    yield redactor
    refold.redact(None)


def test_each_kind_is_found_and_counted() -> None:
    """In a sentence, in quotes, and at both ends of the text."""
    for kind, secret in SECRETS.items():
        redactor = refold.Redactor()
        found = [redactor(text) for text in (secret, f'see "{secret}", please', f"a\n{secret}\nb")]

        mark = f"[hidden: {kind}]"
        assert found == [mark, f'see "{mark}", please', f"a\n{mark}\nb"]
        assert redactor.counts == {kind: 3}
    for kind, (before, secret, after) in WITHIN.items():
        assert refold.Redactor()(before + secret + after) == f"{before}[hidden: {kind}]{after.lstrip('=')}"
    assert {*SECRETS, *WITHIN} == {detector.name for detector in DETECTORS}


@pytest.mark.parametrize("text", HARMLESS)
def test_other_texts_stay(text: str) -> None:
    """Words, numbers and ids that look a little like a secret are no secrets."""
    assert refold.Redactor()(text) == text


def test_groups_are_chosen() -> None:
    """Another group is not hidden; an unknown one is an error."""
    assert refold.Redactor("e-mail")(f"{KEY} a@b.org") == f"{KEY} [hidden: e-mail]"
    with pytest.raises(InvalidInputError, match="keys"):
        refold.Redactor("names")
    with pytest.raises(InvalidInputError, match="no group \\['keys'\\]"):
        refold.Redactor(["keys"])  # type: ignore[arg-type]
    assert GROUPS == ("private keys", "keys", "tokens", "e-mail", "cards")


PIECES = st.sampled_from([
    *(needle for detector in DETECTORS for needle in detector.needles),
    *(secret[:9] for secret in SECRETS.values()), "a", "aB3", ".", "@", "-", ":", "/", " ", "\n", "4111",
    "1 ", "=", "é",
])  # fmt: skip


@given(st.lists(PIECES, max_size=60).map("".join), st.sampled_from(sorted(SECRETS.values())))
def test_a_secret_is_hidden_in_any_text(around: str, secret: str) -> None:
    """Whatever stands around it, the secret is not in the result, which is stable."""
    redactor = refold.Redactor()

    shown = redactor(f"{around} {secret} {around}")

    assert secret not in shown
    assert redactor(shown) == shown


@pytest.mark.parametrize("piece", [
    "sk-", "eyJ", "eyJaaaaaaaa.", "@", "a@", "a.a@a.", "://a:", "bearer ", "-----BEGIN PRIVATE KEY-----", "4111 ",
    "-----BEGIN PRIVATE KEY-----A: b\n", "aws secret key", "ghp_", "AKIA", "xoxb-a", "4111-1111-", "AccountKey=",
])  # fmt: skip
def test_the_time_is_linear(piece: str) -> None:
    """A text made to be slow takes four times as long if it is four times as long, not sixteen times."""
    assert seconds_for(piece, 80_000) < max(8 * seconds_for(piece, 20_000), 0.1)


@pytest.mark.parametrize("end", ["", ".aaaaaaaa.", ".aaaaaaaa.aaaaaaaa"])
def test_a_word_of_many_beginnings(end: str) -> None:
    """Each may begin a token of the web, and no other text is read again for it; a long one is hidden."""
    assert seconds_for("-eyJ", 80_000, end) < 0.1
    assert refold.Redactor()("-eyJ" * 5_000 + end).startswith("-[hidden") == end.endswith("a")


def seconds_for(piece: str, length: int, end: str = "") -> float:
    """Return the processor time for a text that repeats a piece."""
    text = (piece * length)[:length] + end + "\0"
    times = []
    for _ in range(3):
        began = time.process_time()
        refold.Redactor()(text)
        times.append(time.process_time() - began)
    return min(times)


def test_every_logger_is_covered() -> None:
    """A module with a logger of another name would write what is to be hidden."""
    named = re.compile(r"getLogger\((.+?)\)")
    found = set()
    # A name that is given is one of LOGGERS; to the logger of the server a filter is added.
    others = ("name", '"uvicorn.error"')
    for package in (PACKAGES["refold.domain"], PACKAGES["refold.projections"], PACKAGES["refold.infrastructure"]):
        for path in package.rglob("*.py"):
            module = ".".join(("refold", package.name, *path.relative_to(package).with_suffix("").parts))
            names = named.findall(path.read_text("utf-8"))
            found |= {module if name == "__name__" else name.strip('"') for name in names if name not in others}

    assert found == set(LOGGERS)


def test_a_log_line_is_redacted(hidden: refold.Redactor) -> None:
    """The message with its arguments, and the traceback."""
    written = StringIO()
    handler, logger = logging.StreamHandler(written), logging.getLogger("refold.projections")
    logger.addHandler(handler)
    try:
        try:
            raise ValueError(KEY)
        except ValueError:
            logger.exception("it failed on %s", "a@b.org")
    finally:
        logger.removeHandler(handler)

    assert written.getvalue().startswith("it failed on [hidden: e-mail]\nTraceback")
    assert KEY not in written.getvalue()
    assert hidden.counts == {"e-mail": 1, "OpenAI key": 1}


def test_what_a_model_gets_is_redacted(hidden: refold.Redactor) -> None:
    """Every form of a request; what is stored stays."""
    chat = refold.ChatContext()
    chat.add_message("system", f"Use {KEY}.")
    chat.add_message("user", f"I am a@b.org, {KEY}")
    chat.add_function_call("f", json.dumps({"key": KEY}), "c1")
    chat.add_function_output("f", KEY, "c1")

    requests = [
        chat.to_openai_messages(), chat.to_openai_responses(), chat.to_anthropic_messages(), chat.to_google_json(),
    ]  # fmt: skip

    assert not any(secret in repr(request) for request in requests for secret in (KEY, "a@b.org"))
    assert KEY in repr(chat.items)


def test_documents_are_redacted(tmp_path: Path, hidden: refold.Redactor) -> None:
    """A document of another program has no secret."""
    file = tmp_path / "chats.jsonl"
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.add_message("user", KEY)
        export_transcripts(store.log, file, [chat], "sharegpt")

    assert (KEY in file.read_text(), "[hidden: OpenAI key]" in file.read_text()) == (False, True)


def test_a_store_has_a_hook_of_its_own(tmp_path: Path) -> None:
    """It covers models, documents and pages of that store, and of no other."""
    file = tmp_path / "chats.jsonl"

    def hook(text: str) -> str:
        return text.replace("Alice", "A.")

    with refold.open(":memory:", redact=hook) as store, refold.open(":memory:") as other:
        for one in (store, other):
            one.chat("a").add_message("user", "I am Alice.")
        page = TestClient(refold.inspector(store), base_url="http://127.0.0.1:8421").get("/api/view?context=a").text
        export_transcripts(store.log, file, [store.chat("a")], "sharegpt")

        assert ["Alice" in repr(one.chat("a").to_openai_messages()) for one in (store, other)] == [False, True]
        assert ("Alice" in page, "A.." in page, "Alice" in file.read_text()) == (False, True, False)


def test_names_of_fields_stay() -> None:
    """A hook that hides every text leaves the shape; a key that is no name is a text."""
    refold.redact(lambda text: "x")
    try:
        assert redacted({"a": ["b", ("c", {"d e": 1})], "f": None}) == {"a": ["x", ("x", {"x": 1})], "f": None}
    finally:
        refold.redact(None)
    assert redacted({"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize("wrong", ["all", 7])
def test_a_hook_is_a_function(wrong: object) -> None:
    """It is refused when it is set; what it returns is checked when it is used."""
    with pytest.raises(InvalidInputError):
        refold.redact(wrong)  # type: ignore[arg-type]
    refold.redact(lambda text: None)  # type: ignore[arg-type,return-value]
    try:
        with pytest.raises(InvalidInputError, match="NoneType"):
            redacted("a")
    finally:
        refold.redact(None)


@pytest.mark.parametrize("way", ["option", "variable"])
def test_the_command_line_hides(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In lines, in JSON and in errors; stderr has the counts, and the next command hides nothing."""
    place = str(tmp_path / "store.db")
    # Lines are not cut.
    monkeypatch.delenv("COLUMNS", raising=False)
    with refold.open(place) as store:
        store.chat("a").add_message("user", f"key {KEY}, mail a@b.org", message_id="m1")
    options = ["--redact", "keys"] if way == "option" else []
    if way == "variable":
        monkeypatch.setenv("REFOLD_REDACT", "keys")
    for command in (["show", "a"], ["show", "a", "--json"], ["log"], ["audit", "a"], ["search", "mail", "--json"]):
        assert main(["--db", place, *options, *command]) == 0
        printed = capsys.readouterr()
        assert (KEY in printed.out, "a@b.org" in printed.out) == (False, True)
        assert "refold: hidden: " in printed.err
    assert main(["--db", place, *options, "show", KEY]) == 1
    assert KEY not in capsys.readouterr().err
    monkeypatch.delenv("REFOLD_REDACT", raising=False)
    main(["--db", place, "show", "a"])
    assert KEY in capsys.readouterr().out
    assert main(["--db", place, "--redact", "names", "show", "a"]) == 2


def test_events_are_exported_whole_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy with other texts could not be proved; a document can be redacted."""
    place, file = str(tmp_path / "store.db"), tmp_path / "out"
    with refold.open(place) as store:
        store.chat("a").add_message("user", KEY)

    assert main(["--db", place, "--redact", "all", "export", "-o", str(file)]) == 2
    assert "--as" in capsys.readouterr().err
    assert not file.exists()
    assert main(["--db", place, "--redact", "all", "export", "--as", "atif", "-o", str(file)]) == 0
    assert KEY not in file.read_text()


def test_a_hidden_answer_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Redaction is done before the encoding."""
    place = str(tmp_path / "store.db")
    with refold.open(place) as store:
        store.chat("a").add_message("user", f'"{KEY}"')

    main(["--db", place, "--redact", "all", "show", "a", "--json"])

    assert '"[hidden: OpenAI key]"' in repr(msgspec.json.decode(capsys.readouterr().out))
