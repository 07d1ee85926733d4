"""Texts in a store, and what a search finds of them."""

from __future__ import annotations

import refold

ALL = 1_000
TEXTS = (
    "the quick brown fox",
    "brown the quick fox",
    "Quick-brown FOXES, and or not",
    "naïve café CAFE\u0301",
    "naive cafes",
    "東京都に行く",
    "京都と東京",
    "서울에서 만나요",
    "a",
    "b a",
    "before\0after",
    'say "hello" (near) it\'s 100% a_b C++',
)
FINDS = {
    "quick brown": {0, 1, 2},
    "QUICK Fox": {0, 1},
    '"quick brown"': {0, 2},
    '"brown fox"': {0},
    '"quick fox"': {1},
    "fox*": {0, 1, 2},
    '"brown fox"*': {0, 2},
    "fo x": set(),
    "quick-brown": {0, 2},
    "and": {2},
    "quick AND brown": {2},
    "quick OR the": set(),
    "fox NOT quick": set(),
    "NEAR(quick fox)": set(),
    "near": {11},
    "-fox": {0, 1},
    "cafe": {3},
    "café": {3},
    "cafe*": {3, 4},
    "NAÏVE": {3, 4},
    "東京": {5, 6},
    "京都": {5, 6},
    "東京都": {5},
    "都東": set(),
    "都 東": {5, 6},
    "京*": {5, 6},
    "서울": {7},
    "a": {8, 9, 11},
    '"b a"': {9},
    "before": {10},
    '"before after"': {10},
    "before\0after": {10},
    "beforeafter": set(),
    '"hello near"': {11},
    "it's": {11},
    "100%": {11},
    "a_b": {11},
    "c++": {11},
}


def told(store: refold.Store, *texts: str, context: str = "a") -> refold.ChatContext:
    """Add each text as a message to a context."""
    chat = store.chat(context)
    for text in texts:
        chat.add_message("user", text)
    return chat


def found(store: refold.Store, query: str) -> set[str]:
    """Return the snippets of all hits: short texts themselves."""
    return {hit.snippet for hit in store.search(query, limit=ALL)}
