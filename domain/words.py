"""
Words: the searchable words of a text, and the terms of a query; the same for every store.

Only this module splits text. A database gets words separated by blanks, and queries of such words. So its own rules for
words, letters and operators never matter.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from .errors import InvalidInputError, LimitExceededError

WORD_LENGTH_MAX = 128
# The limit of PostgreSQL for the different words of one text, minus the space for their positions.
WORDS_BYTES_MAX = 900_000
QUERY_WORDS_MAX = 64
SNIPPET_LENGTH = 160
SNIPPET_LEAD = 40
SHOWN_LENGTH = 40
# A term is first looked for in this many characters.
LOOKED_AT = 16_384

# An ASCII text has no bytes above 127.
_ASCII = bytes(ord(char.lower()) if char.isalnum() else ord(" ") for char in map(chr, range(128))) + bytes(128)
_ACCENTS = re.compile("[\u0300-\u036f]+")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
# Scripts without blanks between words, or with endings directly after them: Thai, Lao, Burmese, Khmer; kana, ideographs
# and the characters between them; Hangul. Each of their characters is a word, and a word in them is a phrase.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_TERM = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')


class Term(NamedTuple):
    """Adjacent words; with `is_prefix` the last one may be the beginning of a longer word."""

    words: str
    is_prefix: bool = False

    def count_in(self, words: str) -> int:
        """Return how often the term occurs in the words of a text."""
        return f" {words} ".count(self.pattern)

    @property
    def pattern(self) -> str:
        """The string to search for in words that have a blank before and after them."""
        return f" {self.words}" if self.is_prefix else f" {self.words} "


def parse_query(query: str) -> tuple[Term, ...]:
    """
    Return the terms that must all be found: words, "phrases", and beginnings of words (`begin*`).

    Other signs have no meaning. A term of several words, like `foo-bar` or a sequence of ideographs, is searched as a
    phrase.

    Raises:
        InvalidInputError: the query has no letter or digit.
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

    A word is letters, digits and the marks that belong to them, in lower case, without accents, cut after
    WORD_LENGTH_MAX characters. When the different words exceed WORDS_BYTES_MAX bytes, the rest of the text is left out.
    """
    words = _folded_text(text).split()
    joined = " ".join(words)
    if _has_long_word(joined):
        words = [word[:WORD_LENGTH_MAX] for word in words]
        joined = " ".join(words)
    return joined if len(joined) * 4 <= WORDS_BYTES_MAX else " ".join(_within_limit(words))


def _has_long_word(words: str) -> bool:
    """Return whether a word is too long; each step goes to the last blank within WORD_LENGTH_MAX characters."""
    begin, last = 0, len(words) - WORD_LENGTH_MAX
    while begin < last:
        blank = words.rfind(" ", begin, begin + WORD_LENGTH_MAX + 1)
        if blank < 0:
            return True
        begin = blank + 1
    return False


def _folded_text(text: str) -> str:
    """Return the text with a blank wherever a word ends."""
    if text.isascii():
        # Half of the time that the methods of `str` take.
        return text.encode().translate(_ASCII).decode()
    # This also replaces compatibility forms: a full-width letter becomes the plain letter, a ligature its letters.
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFKC", bare).translate(_FoldedCharacters())


class _FoldedCharacters(dict[int, str | None]):
    """The folded form of each character, computed when it is first needed."""

    def __missing__(self, code: int) -> str | None:
        self[code] = becomes = _folded_character(chr(code))
        return becomes


def _folded_character(char: str) -> str | None:
    category = unicodedata.category(char)
    if _SELECTORS.match(char) or category == "Me" or (category == "Cf" and char != "\u200b"):
        # Characters that are invisible within a word, or only change its look, do not end it.
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
    """Return a piece of `text` on one line; it begins a little before the first occurrence of `term`."""
    start = _place_of(text, term) - SNIPPET_LEAD
    first = max(0, min(start, len(text) - SNIPPET_LENGTH))
    piece = text[first : first + SNIPPET_LENGTH].replace("\0", "\u2400")
    return "…" * (first > 0) + " ".join(piece.split()) + "…" * (first + SNIPPET_LENGTH < len(text))


def _place_of(text: str, term: Term) -> int:
    """Return an index within the first occurrence of a term; a long text is read at most about four times as far."""
    length = LOOKED_AT
    while length < len(text):
        piece = text[:length]
        # The last word may be cut, so it does not count.
        whole, _, _ = words_of(piece).rpartition(" ")
        before, found, _ = f" {whole} ".partition(term.pattern)
        if found:
            return _place_behind(piece, before.count(" "))
        length *= 4
    return _place_behind(text, f" {words_of(text)} ".partition(term.pattern)[0].count(" "))


def _place_behind(text: str, words_before: int) -> int:
    """Return an index in the word that follows this many words, by halving the text and counting words."""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        is_within_word = " " not in _folded_text(text[middle - 1 : middle + 1])
        # A word that is cut by the middle counts in the second half.
        count = len(_folded_text(text[low:middle]).split()) - is_within_word
        if words_before < count:
            high = middle
        else:
            words_before -= count
            low = middle
    return low
