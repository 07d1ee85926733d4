"""
Words: what of a text can be searched, and what a query asks for; the same for every store.

Text is cut here, and nowhere else: a database is given words with blanks between them, and a query of such words, so
that its own idea of words, letters and operators never comes into play.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from .errors import InvalidInputError, LimitExceededError

WORD_LENGTH_MAX = 128
# What PostgreSQL takes as different words of one text, less what their places need.
WORDS_BYTES_MAX = 900_000
QUERY_WORDS_MAX = 64
SNIPPET_LENGTH = 160
SNIPPET_LEAD = 40
SHOWN_LENGTH = 40

_ASCII = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))
_ACCENTS = re.compile("[\u0300-\u036f]+")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
# Scripts that put no blanks between words, or endings right behind them: Thai, Lao, Burmese, Khmer; kana, ideographs
# and what stands between them; Hangul. Each of their characters is a word, and a word of theirs a phrase.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_TERM = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')


class Term(NamedTuple):
    """Words that stand side by side; with `is_prefix` the last one may go on."""

    words: str
    is_prefix: bool = False

    def count_in(self, words: str) -> int:
        """Return how often the term stands in the words of a text."""
        return f" {words} ".count(self.pattern)

    @property
    def pattern(self) -> str:
        """A search in words that have a blank before and behind them."""
        return f" {self.words}" if self.is_prefix else f" {self.words} "


def parse_query(query: str) -> tuple[Term, ...]:
    """
    Return what must all be found: words, "phrases", and beginnings of words (`begin*`); no other sign has a meaning.

    A term of several words, like `foo-bar` or a run of ideographs, is looked for as a phrase.

    Raises:
        InvalidInputError: there is no letter or digit in it.
        LimitExceededError: it has more than QUERY_WORDS_MAX words.
    """
    if not isinstance(query, str):
        raise InvalidInputError(f"a query is a text, not {type(query).__name__}")
    terms = []
    for phrase, star, plain in _TERM.findall(query):
        words = words_of(phrase or plain)
        if words:
            terms.append(Term(words, is_prefix=bool(star) or plain.endswith("*")))
    if not terms:
        raise InvalidInputError(f"the query {query[:SHOWN_LENGTH]!r} has no word: give letters or digits to look for")
    count = sum(len(term.words.split()) for term in terms)
    if count > QUERY_WORDS_MAX:
        raise LimitExceededError("QUERY_WORDS_MAX", allowed=QUERY_WORDS_MAX, actual=count)
    return tuple(terms)


def words_of(text: str) -> str:
    """
    Return the words of a text, in their order, with a blank between them.

    A word is letters, digits and the marks that belong to them, in lower case, without accents, cut off behind
    WORD_LENGTH_MAX characters. Words behind WORDS_BYTES_MAX bytes of different words are left out.
    """
    words = _spread(text).split()
    if max(map(len, words), default=0) > WORD_LENGTH_MAX:
        words = [word[:WORD_LENGTH_MAX] for word in words]
    joined = " ".join(words)
    return joined if len(joined) * 4 <= WORDS_BYTES_MAX else " ".join(_within_limit(words))


def _spread(text: str) -> str:
    """Return the text with a blank wherever a word ends."""
    if text.isascii():
        return text.lower().translate(_ASCII)
    # Compatibility forms too: a full-width letter is that letter, a ligature its letters.
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFKC", bare).translate(_Spreading())


class _Spreading(dict[int, str | None]):
    """The folded form of each character, computed when it first comes."""

    def __missing__(self, code: int) -> str | None:
        self[code] = becomes = _spread_character(chr(code))
        return becomes


def _spread_character(char: str) -> str | None:
    category = unicodedata.category(char)
    if _SELECTORS.match(char) or category == "Me" or (category == "Cf" and char != "\u200b"):
        # Characters that are invisible within a word, or only say how it looks, do not end it.
        return None
    if category[0] not in "LN" and category not in ("Mn", "Mc", "Co"):
        return " "
    return f" {char} " if _UNSPACED.match(char) else char


def _within_limit(words: list[str]) -> list[str]:
    size, seen = 0, set()
    for index, word in enumerate(words):
        if word not in seen:
            seen.add(word)
            size += len(word.encode())
            if size > WORDS_BYTES_MAX:
                return words[:index]
    return words


def snippet_of(text: str, term: Term) -> str:
    """Return a piece of `text` on one line: from a little before the first place where `term` stands."""
    words_before = f" {words_of(text)} ".partition(term.pattern)[0].count(" ")
    start = _place_behind(text, words_before) - SNIPPET_LEAD
    first = max(0, min(start, len(text) - SNIPPET_LENGTH))
    piece = text[first : first + SNIPPET_LENGTH].replace("\0", "\u2400")
    return "…" * (first > 0) + " ".join(piece.split()) + "…" * (first + SNIPPET_LENGTH < len(text))


def _place_behind(text: str, words_before: int) -> int:
    """Return an index within this many words of the beginning, or at their end: halves of the text are counted."""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        is_within_word = " " not in _spread(text[middle - 1 : middle + 1])
        # A word that the middle cuts is counted with what follows.
        count = len(_spread(text[low:middle]).split()) - is_within_word
        if words_before < count:
            high = middle
        else:
            words_before -= count
            low = middle
    return low
