"""Counting tokens: the estimates, tiktoken, and totals that run along (SPEC V2.7 to V2.10, X2)."""

import sys

import msgspec
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import ChatItemEvent
from refold.domain.chat.items import ImageContent
from refold.domain.chat.state.item_table import RunningTotals, totals_of
from refold.domain.chat.state.sequence import RunningTokens
from refold.domain.chat.tokens import CHARACTERS, SCRIPTS, estimate_tokens, tiktoken_counter
from refold.domain.totals import Totals

from .chat_events import returned
from .strategies import ITEM_EVENT, PROPERTY

# Each byte a token, and two pairs of them.
RANKS = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"cd": 257}
TINY = tiktoken.Encoding(name="tiny", pat_str=r"\w+|\W+", mergeable_ranks=RANKS, special_tokens={"<|end|>": 258})
# Ends and beginnings of what counts, and what lies just outside.
LETTERS = st.text(
    "aé’🙂\ufe0f\u2fff\u3000漢字かな한글、\udfff\ue000\uff00，\uffbf\uffc0\U0001ffff\U00020000𠮷\U0003ffff\U00040000"
)


@pytest.mark.parametrize(
    ("text", "by_characters", "by_scripts"),
    [
        ("", 0, 0),
        ("abc", 0, 0),
        ("abcdefgh", 2, 2),
        ("naïve—café", 2, 2),
        ("привет, мир", 2, 2),
        ("🙂👍🏽❤\ufe0f" * 4, 5, 5),
        ("日本語", 0, 3),
        ("日本語テキスト。", 2, 8),
        ("안녕하세요", 1, 5),
        ("你好，世界！", 1, 6),
        ("hello 世界, how are", 4, 5),
        ("𠮷野家", 0, 3),
    ],
)
def test_estimates_of_texts(text: str, by_characters: int, by_scripts: int) -> None:
    """V2.8: a quarter of the characters; X2: of Chinese, Japanese and Korean, all of them."""
    assert CHARACTERS(text) == by_characters
    assert SCRIPTS(text) == by_scripts


def by_characters_seen(text: str) -> int:
    """Count a text by looking at each character."""
    whole = sum(
        0x3000 <= ord(one) <= 0xDFFF or 0xFF00 <= ord(one) <= 0xFFBF or 0x20000 <= ord(one) <= 0x3FFFF for one in text
    )
    return whole + (len(text) - whole) // 4


@PROPERTY
@given(LETTERS)
def test_scripts_are_told_apart(text: str) -> None:
    """Counting bytes of UTF-8 says what looking at each character says."""
    assert SCRIPTS(text) == by_characters_seen(text)


@PROPERTY
@given(ITEM_EVENT)
def test_the_seeds_estimate_is_the_default(item: ChatItemEvent) -> None:
    """Counting by scripts is a choice, and never counts less."""
    assert estimate_tokens(item) == estimate_tokens(item, CHARACTERS) <= estimate_tokens(item, SCRIPTS)


def test_what_surrounds_texts_counts_the_same() -> None:
    """V2.7 to V2.10: 4 each, 300 an image, 5 a call or output, nothing for what config updates hold."""
    chat = ChatContext()
    chat.add_message("user", ["four", ImageContent(image="u"), "日本"])
    chat.add_function_call("f", "日本語")
    chat.add_function_output("f", "日本語", "c")
    chat.add_config_update("日本語" * 100)

    def letters(text: str) -> int:
        return len(text)

    tokens = [estimate_tokens(item, letters) for item in chat.recorded_items()]
    assert tokens == [4 + 4 + 300 + 2, 4 + 1 + 5 + 3, 4 + 1 + 5 + 3, 4]
    assert [estimate_tokens(item) for item in chat.recorded_items()] == [4 + 1 + 300, 4 + 5, 4 + 5, 4]
    assert chat.estimated_tokens() == 305 + 9 + 9 + 4


def test_tiktoken_counts() -> None:
    """An encoding counts its own tokens; what looks like a special one is text."""
    count = tiktoken_counter(TINY)

    assert [count(text) for text in ("", "abcd", "abcabc", "é", "<|end|>")] == [0, 2, 4, 2, 7]


def test_tiktoken_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encodings and models go by their names."""
    monkeypatch.setattr(tiktoken, "get_encoding", {"o200k_base": TINY}.__getitem__)
    monkeypatch.setattr(tiktoken, "encoding_for_model", {"some-model": TINY}.__getitem__)

    assert tiktoken_counter("o200k_base")("abcd") == tiktoken_counter("some-model")("abcd") == 2
    with pytest.raises(ValueError, match=r"no encoding and no model 'nobody'; its encodings are .*o200k_base"):
        tiktoken_counter("nobody")


def test_without_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)

    with pytest.raises(ImportError, match=r'pip install "refold\[tiktoken\]"'):
        tiktoken_counter("o200k_base")


def test_totals_run_along() -> None:
    """Each item is counted once, however often the total is asked for."""
    counted: list[str] = []
    chat = ChatContext()
    running = RunningTokens(lambda text: counted.append(text) or len(text))  # type: ignore[func-returns-value]
    for text in ("a", "bb", "ccc"):
        chat.add_message("user", text)
        running.total(chat.recorded_items())

    assert running.total(chat.recorded_items()) == 3 * 4 + 6
    assert counted == ["a", "bb", "ccc"]


@PROPERTY
@given(
    st.lists(st.one_of(st.integers(0, 1_000), st.integers(-(1 << 40), 1 << 40)), max_size=8),
    st.integers(0, 8),
    st.integers(0, 8),
)
def test_totals_of_a_snapshot(tokens: list[int], kept: int, count: int) -> None:
    """They are those of the items, of each and of the first ones, whatever an erased item counted; also when cut."""
    items = [
        msgspec.structs.replace(returned(f"o{number}", call_id="c"), erased=one) for number, one in enumerate(tokens)
    ]
    kept, count = min(kept, len(items)), min(count, len(items))
    counted, first = RunningTotals(), RunningTotals()
    for number, item in enumerate(items):
        counted.add(item)
        if number < kept:
            first.add(item)
    total = first.of(kept)
    opened = RunningTotals(kept, first.packed({}, kept), total.tokens, total.turns)
    for item in items[kept:]:
        opened.add(item)

    for totals in (opened, opened.until(count), counted.until(count)):
        for item in items[totals.end :]:
            totals.add(item)
        assert [totals.of(end) for end in range(len(items) + 1)] == [
            sum(map(totals_of, items[:end]), Totals()) for end in range(len(items) + 1)
        ]
        assert [totals.of_item(ordinal) for ordinal in range(len(items) + 1)] == [*map(totals_of, items), None]
        assert totals.packed({}, count) == counted.packed({}, count)


def test_an_edit_has_nothing_counted_again() -> None:
    """What left is taken off, what came back is added, by what was counted before."""
    counted: list[str] = []

    def counter(text: str) -> int:
        counted.append(text)
        return len(text)

    chat = ChatContext()
    first, _, last = [chat.add_message("user", text) for text in ("a", "bb", "ccc")]
    assert chat.estimated_tokens(counter) == 3 * 4 + 6

    chat.evict(first.id)
    assert chat.estimated_tokens(counter) == 2 * 4 + 5
    chat.evict(last.id)
    chat.restore(first.id)
    chat.add_message("user", "dddd")
    assert chat.estimated_tokens(counter) == 3 * 4 + 7
    assert counted == ["a", "bb", "ccc", "dddd"]


def test_truncation_takes_a_counter() -> None:
    """And stops where its count is within the limit."""
    chat = ChatContext()
    for text in ("one two", "three", "four five six"):
        chat.add_message("user", text)

    chat.truncate(max_tokens=4 + 1 + 4 + 3, counter=lambda text: len(text.split()))
    assert [message.content for message in chat.messages()] == [["three"], ["four five six"]]


def test_a_total_of_something_else_starts_anew() -> None:
    """An earlier version, or another context, gets its own total."""
    chat, other = ChatContext(), ChatContext()
    chat.add_message("user", "aa")
    chat.add_message("user", "bb")
    other.add_message("user", "c")
    running = RunningTokens(len)

    totals = [running.total(one.recorded_items()) for one in (chat, chat.at(2), other, chat)]
    assert totals == [12, 6, 5, 12]
