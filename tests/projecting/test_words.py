"""What counts as a word, what a query asks for, and what is shown of a text."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold.domain import words
from refold.domain.errors import InvalidInputError, LimitExceededError
from refold.domain.words import (
    QUERY_WORDS_MAX,
    SNIPPET_LENGTH,
    WORD_LENGTH_MAX,
    WORDS_BYTES_MAX,
    Term,
    parse_query,
    snippet_of,
    words_of,
)
from refold.projections.search import _readable

TEXTS = {
    "Where is my order?": "where is my order",
    "snake_case, kebab-case; a.b@c.d/e": "snake case kebab case a b c d e",
    "a\0b\tc\r\nd": "a b c d",
    "Größe CRÈME e\u0301te\u0301 İstanbul Straße": "grosse creme ete istanbul strasse",
    "Ёлка Йод άλφα ΑΣ": "елка иод αλφα ασ",
    "ﬁne ＡＢＣ１ ² ½": "fine abc1 2 1 2",
    "soft\u00adhyphen join\u200cer zero\u200bwidth": "softhyphen joiner zero width",
    "हिन्दी में": "हिन्दी में",
    "東京タワー、日本abc": "東 京 タ ワ ー 日 本 abc",
    "がき\u3099": "が ぎ",
    "학교에서": "학 교 에 서",
    "ไทย": "ไ ท ย",
    "👍🏽\ufe0f 5\ufe0f\u20e3 → €": "5",
    "half \ud800 a character": "half a character",
    "": "",
}


@pytest.mark.parametrize(("text", "words"), TEXTS.items())
def test_words(text: str, words: str) -> None:
    """Letters and digits, in lower case and without accents; where scripts have no blanks, each character."""
    assert words_of(text) == words
    assert words_of(words) == words


def test_a_long_word_is_cut_off() -> None:
    """It is found by what it begins with, and asked for in the same way."""
    words = words_of("x" * 5_000 + " end")

    assert words == "x" * WORD_LENGTH_MAX + " end"
    assert parse_query("x" * 5_000) == (Term("x" * WORD_LENGTH_MAX),)


@given(st.lists(st.integers(1, 3 * WORD_LENGTH_MAX // 2), max_size=12))
def test_words_of_any_length(lengths: list[int]) -> None:
    """Wherever a long word stands, it is cut, and no other."""
    words = ["x" * length for length in lengths]

    assert words_of(" ".join(words)) == " ".join(word[:WORD_LENGTH_MAX] for word in words)


def test_too_many_different_words() -> None:
    """What one text adds to an index is bounded; that many repeated ones do no harm."""
    different = [f"w{number:06}" for number in range(WORDS_BYTES_MAX // 7 + 10)]
    repeated = "again " * WORDS_BYTES_MAX

    assert words_of(" ".join(different)).split() == different[: WORDS_BYTES_MAX // 7]
    assert words_of(repeated).count("again") == WORDS_BYTES_MAX


QUERIES = {
    "order seven": (Term("order"), Term("seven")),
    '"order seven"': (Term("order seven"),),
    "ord*": (Term("ord", is_prefix=True),),
    '"my ord"* now': (Term("my ord", is_prefix=True), Term("now")),
    "foo-bar_baz*": (Term("foo bar baz", is_prefix=True),),
    "東京 tower": (Term("東 京"), Term("tower")),
    "a AND b OR NOT NEAR(d e)": (*map(Term, ("a", "and", "b", "or", "not", "near d", "e")),),
    '-x +y ~z ^w {v} t:u "open': (*map(Term, ("x", "y", "z", "w", "v", "t u", "open")),),
    "c++ ** * '' % _ \\ ; -- x": (Term("c"), Term("x")),
    'a"b c"d': (Term("a"), Term("b c"), Term("d")),
}


@pytest.mark.parametrize(("query", "terms"), QUERIES.items())
def test_queries(query: str, terms: tuple[Term, ...]) -> None:
    """Quotes and a star at the end mean something, nothing else does."""
    assert parse_query(query) == terms


@pytest.mark.parametrize("query", ["", " \t\n", '"', '""', '"" *', "-", "*", "\0", "\ud800", "👍", "()[]"])
def test_a_query_without_a_word(query: str) -> None:
    """There is nothing to look for, and the error says so."""
    with pytest.raises(InvalidInputError, match="has no word: give letters or digits"):
        parse_query(query)


def test_a_query_that_is_no_text() -> None:
    """Bytes are none."""
    with pytest.raises(InvalidInputError, match="a query is a text, not bytes"):
        parse_query(b"order")  # type: ignore[arg-type]


def test_a_query_of_too_many_words() -> None:
    """Those of phrases count each."""
    most = " ".join(["word"] * QUERY_WORDS_MAX)

    assert len(parse_query(most)) == QUERY_WORDS_MAX
    with pytest.raises(LimitExceededError, match="QUERY_WORDS_MAX is 64, and this would take 65"):
        parse_query(f'"{most}" more')


SNIPPETS = {
    ("A short text.", "text"): "A short text.",
    ("first\n\n  line\0 and more", "and"): "first line\u2400 and more",
    ("no " * 200 + "here", "here"): "…" + "no " * 52 + "here",
    ("here " + "no " * 200, "here"): "here" + " no" * 52 + "…",
    (" bcde ghij lmno qrst vwxy abcd fghi k here" + " x" * 100, "here"): (
        "…bcde ghij lmno qrst vwxy abcd fghi k here" + " x" * 59 + "…"
    ),
    ("here " + "x" * (SNIPPET_LENGTH - 5), "here"): "here " + "x" * (SNIPPET_LENGTH - 5),
    ("here " + "x" * (SNIPPET_LENGTH - 4), "here"): "here " + "x" * (SNIPPET_LENGTH - 5) + "…",
}


@pytest.mark.parametrize("near", [1, 3, 8, 20])
def test_a_snippet_of_a_long_text_is_found_piece_by_piece(near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the place is, and wherever a piece ends: the beginning of a word is not taken for the word."""
    monkeypatch.setattr(words, "LOOKED_AT", near)
    texts = ("needles no nee-dle crème e\u0301te\u0301 มะนาว 東京 ", "needle. " * 3, "ae\u0301" * 30 + " ")
    for text in (before + "x " * count + "a needle東, it is" for before in texts for count in (0, 1, 9, 99)):
        for term in (Term("needle"), Term("needle 東"), Term("need", is_prefix=True), Term("nee dle"), Term("missing")):
            found = words._place_of(text, term)
            with monkeypatch.context() as whole:
                whole.setattr(words, "LOOKED_AT", len(text))
                known = words._place_of(text, term)
            # They are in the same word, and may be at another character of it.
            assert " " not in text[min(found, known) : max(found, known)], (text, term)


def test_a_snippet_reads_little_of_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search finds outputs of tools of any length; of a megabyte, the beginning is enough for a word there."""
    read: list[int] = []
    spread = words._folded_text

    def noted(text: str) -> str:
        read.append(len(text))
        return spread(text)

    monkeypatch.setattr(words, "_folded_text", noted)

    assert "a needle in" in snippet_of("hay " * 99 + "a needle in it " + "hay " * 250_000, Term("needle"))
    assert sum(read) < 100_000


@pytest.mark.parametrize(("asked", "snippet"), SNIPPETS.items())
def test_snippets(asked: tuple[str, str], snippet: str) -> None:
    """A short text is shown as it is, on one line; of a long one the part where the term stands."""
    text, word = asked

    assert snippet_of(text, Term(word)).replace("… ", "…") == snippet


@pytest.mark.parametrize("filler", ["plain words, and ", "größer ", "東京都", "x" * 300 + " "])
@pytest.mark.parametrize("before", [0, 1, 17, 1_000])
def test_a_snippet_shows_the_place(filler: str, before: int) -> None:
    """However much of what script stands before it."""
    text = filler * before + "the Löst-word*" + filler * before

    snippet = snippet_of(text, Term("lost wor", is_prefix=True))

    assert "Löst-word" in snippet
    assert len(snippet) <= SNIPPET_LENGTH + 2


@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans(), st.booleans())
@example('C:\\new\\/ud83d "\1\0\n"\N{GRINNING FACE}', True, True)
@example("\\\\/\N{OHM SIGN}", False, True)
def test_json_is_read_without_its_escapes(text: str, is_ascii: bool, has_slashes: bool) -> None:
    """However it was written."""
    written = json.dumps({"text": text}, ensure_ascii=is_ascii)

    assert _readable(written.replace("/", r"\/") if has_slashes else written) == f'{{"text": "{text}"}}' or (
        "\\" not in written
    )


def test_half_a_character_in_json() -> None:
    """It cannot be encoded, and takes nothing else with it."""
    assert _readable(r'"one \ud83d two \uD83D\uDE00"') == '"one \N{REPLACEMENT CHARACTER} two \N{GRINNING FACE}"'
    assert _readable(r'"two \uD83D\uDE00"') == '"two \N{GRINNING FACE}"'
