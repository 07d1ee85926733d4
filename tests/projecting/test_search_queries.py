"""What may be asked in a search, and that every kind of store understands it in the same way."""

from __future__ import annotations

import asyncio
import random

import pytest

import refold
from refold.domain.errors import LimitExceededError
from refold.domain.words import words_of
from refold.pool import ContextItem

from .telling import FINDS, TEXTS, found, told


@pytest.fixture(scope="module")
def texts() -> dict[str, int]:
    """The texts as snippets show them, with their numbers."""
    return {text.replace("\0", "\u2400"): number for number, text in enumerate(TEXTS)}


def test_the_query_language(store: refold.Store, texts: dict[str, int]) -> None:
    """Words are all there, phrases in a row, `*` at the end goes on; no other sign, nor any word, is special."""
    told(store, *TEXTS)

    assert {query: {texts[text] for text in found(store, query)} for query in FINDS} == FINDS


HOSTILE = (
    '""a', 'a"', 'a "b', "a*b*", "*a", "^a", "a^", "{a} : b", "words:a", "key:a", "a AND", "OR a", "NOT a",
    "NEAR/2 a", "a + b", "a, b", "a; DROP TABLE view_search", "a' OR '1'='1", "a:*", "a & | ! b", "!a", "<->a",
    "a <-> b", "(a", "a)", "a\\", "\\'a", "$1 a", "%s a", "?1 a", ":limit a", "a\0", "a\ud800", "\u2018a\u2019",
    "a" * 10_000,
)  # fmt: skip


def test_no_query_is_a_syntax_error(store: refold.Store) -> None:
    """Whatever a database would make of it, it is looked for as words."""
    told(store, "a", "b")

    hits = [store.search(query) for query in HOSTILE]

    assert [bool(hit) for hit in hits] == [set(words_of(query).split()) == {"a"} for query in HOSTILE]


@pytest.mark.parametrize("query", ["", "  ", '""', "*", "!?", "\0"])
def test_a_query_without_a_word(store: refold.Store, query: str) -> None:
    """It is refused, and not because of the database."""
    with pytest.raises(refold.InvalidInputError, match="has no word"):
        store.search(query)


def test_what_else_is_refused(store: refold.Store) -> None:
    """Kinds and contexts that are not there, limits that are none, and more words than anybody types."""
    told(store, "a")

    with pytest.raises(
        refold.InvalidInputError,
        match="nothing of the kind 'chart' is searched: the kinds are chat, queue",
    ):
        store.search("a", kind="chart")
    with pytest.raises(refold.NotFoundError, match="there is no context 'b': `refold contexts` lists them"):
        store.search("a", context="b")
    with pytest.raises(refold.InvalidInputError, match="'a@2' cannot be the id"):
        store.search("a", context="a@2")
    with pytest.raises(refold.InvalidInputError, match="limit is 0"):
        store.search("a", limit=0)
    with pytest.raises(LimitExceededError, match="QUERY_WORDS_MAX"):
        store.search("a " * 65)


def test_a_context_is_named_with_or_without_its_kind(store: refold.Store) -> None:
    """A kind that contradicts the name finds no context, instead of what the name alone would find."""
    store.chat("support").add_message("user", "order 7")
    asyncio.run(store.queue("support").append(ContextItem("order 8")))
    store.chat("chat:support").add_message("user", "order 9")

    def kinds(context: str, kind: str | None = None) -> list[tuple[str, str]]:
        return sorted((hit.kind, hit.context) for hit in store.search("order", context=context, kind=kind))

    both = [("chat", "support"), ("queue", "support")]
    assert (kinds("support"), kinds("support", "queue")) == (both, both[1:])
    assert kinds("chat:support") == kinds("chat:support", "chat") == both[:1]
    assert kinds("chat:chat:support") == [("chat", "chat:support")]
    with pytest.raises(refold.NotFoundError, match="there is no queue 'chat:support'"):
        kinds("chat:support", "queue")


def test_the_longest_query(store: refold.Store) -> None:
    """As many words as are allowed, as one phrase and one by one."""
    words = [f"w{number}" for number in range(64)]
    told(store, " ".join(words), " ".join(reversed(words)))

    assert len(store.search(" ".join(words))) == 2
    assert len(store.search(f'"{" ".join(words)}"')) == 1


WORDS = ["a", "ab", "abc", "Äb", "東", "東京", "京", "ไทย", "c-d", "c", "d", "x_y", "1.5", "don't"]


def test_every_store_finds_the_same(store: refold.Store) -> None:
    """Texts and queries made of the same few words, compared with a plain look at each text."""
    chance = random.Random(7)
    texts = sorted({" ".join(chance.choices(WORDS, k=chance.randint(1, 6))) for _ in range(150)})
    told(store, *texts)
    queries = [_drawn(chance) for _ in range(200)]

    assert [found(store, query) for query in queries] == [
        {text for text in texts if all(_stands_in(text, part) for part in parts)}
        for parts in (_parts(query) for query in queries)
    ]


def _drawn(chance: random.Random) -> str:
    terms = []
    for _ in range(chance.randint(1, 3)):
        words = " ".join(chance.choices(WORDS, k=chance.randint(1, 2)))
        terms.append((f'"{words}"' if chance.random() < 0.5 else words) + "*" * (chance.random() < 0.3))
    return " ".join(terms)


def _parts(query: str) -> list[str]:
    """Return the parts of a query: in quotes or not, each with its star."""
    quoted = query.split('"')
    return [
        part
        for number, piece in enumerate(quoted)
        for part in ([piece + "*" * quoted[number + 1].startswith("*")] if number % 2 else piece.split())
        if part != "*"
    ]


def _stands_in(text: str, part: str) -> bool:
    said, wanted = _letters(text), _letters(part.removesuffix("*"))
    for start in range(len(said) - len(wanted) + 1):
        stretch = said[start : start + len(wanted)]
        if stretch[:-1] == wanted[:-1] and (
            stretch[-1] == wanted[-1] or (part.endswith("*") and stretch[-1].startswith(wanted[-1]))
        ):
            return True
    return False


def _letters(text: str) -> list[str]:
    plain = text.replace("Ä", "a")
    return "".join(f" {char} " if char in "東京ไทย" else char if char.isalnum() else " " for char in plain).split()
