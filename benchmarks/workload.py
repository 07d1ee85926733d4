"""
The measured text: it is made up, the same for the same seed, and about as compressible as real runs.

Words follow Zipf's law, and some follow others more often than chance, as in natural language; tool outputs are
JSON records of a few shapes, and a record that was seen may be seen again. A turn is a user message (about 200
characters), a function call (150), its output (2 KB) and an answer (800), which quotes the output.
`compressibility` measures the result.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import zstandard

SEED = 20_260_101
TURNS_KEPT = 2_500
TURN = 4
BLOCK = 64
SEEN_BEFORE = 0.45
SEEN_KEPT = 12
SYLLABLES = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "in", "or", "es")]
ENDINGS = (".", ".", ".", ".", "?", ".\n\n", ":\n- ")
Kind = Literal["system", "user", "call", "output", "answer"]


class Item(NamedTuple):
    """One item of a conversation; calls and outputs have the name of a function and an id in common."""

    kind: Kind
    text: str
    name: str = ""
    call_id: str = ""


class Compressibility(NamedTuple):
    """How many times smaller zstd at level 3 makes texts: alone, and 64 together."""

    single: float
    blocks: float


class _Speaker:
    """Makes words, sentences and records up; everything comes from one random source."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._words = self._vocabulary(6_000)
        self._weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(self._words))))
        self._followers = {word: self._pick(6) for word in self._words}
        self._tools = [self._tool() for _ in range(12)]
        self._seen: dict[str, list[dict[str, Any]]] = {name: [] for name, _ in self._tools}

    def _vocabulary(self, count: int) -> list[str]:
        words: dict[str, None] = {}
        while len(words) < count:
            # Frequent words are short.
            longest = 1 + min(3, len(words) // 60)
            syllables = self.random.choices(SYLLABLES, k=self.random.randint(1, longest))
            words["".join(syllables)] = None
        return list(words)

    def _pick(self, count: int) -> list[str]:
        return self.random.choices(self._words, cum_weights=self._weights, k=count)

    def prose(self, length: int) -> str:
        """Return sentences of about `length` characters."""
        parts: list[str] = []
        size = 0
        while size < length:
            sentence = self.sentence()
            parts.append(sentence)
            size += len(sentence) + 1
        return " ".join(parts)[: max(length, 20)]

    def sentence(self) -> str:
        """Return one sentence; half of its words follow from the word before."""
        words = self._pick(1)
        for fresh in self._pick(self.random.randint(5, 16)):
            usual = self._followers[words[-1]]
            words.append(usual[int(6 * self.random.random() ** 2)] if self.random.random() < 0.5 else fresh)
        return " ".join(words).capitalize() + self.random.choice(ENDINGS)

    def _tool(self) -> tuple[str, dict[str, str]]:
        kinds = ("id", "word", "number", "price", "date", "flag", "text", "choice", "list")
        fields = {f"{a}_{b}": self.random.choice(kinds) for a, b in zip(self._pick(9), self._pick(9), strict=True)}
        return "_".join(self._pick(2)), {"id": "id", **fields, "note": "text"}

    def record(self, name: str, fields: dict[str, str]) -> dict[str, Any]:
        """Return a JSON object with a value for each field: a new object, or a recent one of this tool."""
        seen = self._seen[name]
        if seen and self.random.random() < SEEN_BEFORE:
            return self.random.choice(seen[-SEEN_KEPT:])
        seen.append({field: self.value(kind) for field, kind in fields.items()})
        return seen[-1]

    def value(self, kind: str) -> Any:
        """Return a value of a kind."""
        draw = self.random
        match kind:
            case "id":
                return f"{draw.choice('ABCDEFGH')}{draw.randrange(10**7):07d}"
            case "number":
                return draw.randrange(400)
            case "price":
                return round(draw.uniform(5, 900), 2)
            case "date":
                return f"2026-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
            case "flag":
                return draw.random() < 0.7
            case "choice":
                return self._words[draw.randrange(200, 206)]
            case "list":
                return self._pick(draw.randint(1, 4))
            case "word":
                return self._pick(1)[0].capitalize()
            case _:
                return self.sentence().strip()

    def turn(self, number: int) -> list[Item]:
        """Return the four items of one turn."""
        name, fields = self.random.choice(self._tools)
        call_id = f"call_{self.random.getrandbits(96):024x}"
        asked = {key: self.value(kind) for key, kind in list(fields.items())[:3]}
        asked["query"] = self.prose(self.random.randint(30, 60))
        wanted, records = self.random.randint(1_400, 2_300), [self.record(name, fields)]
        while len(json.dumps(records)) < wanted:
            records.append(self.record(name, fields))
        question = f"{self.prose(self.random.randint(120, 250))} {asked['id']}"
        output = json.dumps({"status": "ok", "page": number % 7, "results": records})
        return [
            Item("user", question),
            Item("call", json.dumps(asked), name, call_id),
            Item("output", output, name, call_id),
            Item("answer", self.answer(records)),
        ]

    def answer(self, records: list[dict[str, Any]]) -> str:
        """Return an answer of about 800 characters that quotes two records."""
        quotes = [f"- {record['id']}: {record['note']}" for record in (records[0], records[-1])]
        rest = 800 - sum(map(len, quotes)) + self.random.randint(-150, 150)
        return "\n".join([self.prose(rest // 2), *quotes, self.prose(rest // 2)])


def turns(count: int, *, seed: int = SEED) -> list[list[Item]]:
    """Return `count` turns; behind the first 2,500 they begin again."""
    speaker = _Speaker(seed)
    made = [speaker.turn(number) for number in range(min(count, TURNS_KEPT))]
    return [made[number % TURNS_KEPT] for number in range(count)]


def items(count: int, *, seed: int = SEED) -> list[Item]:
    """Return the first `count` items of such turns."""
    return [item for turn in turns(-(-count // TURN), seed=seed) for item in turn][:count]


def text_bytes(some: Sequence[Item]) -> int:
    """Return how many bytes of UTF-8 the texts of items have: contents, arguments and outputs, nothing else."""
    return sum(len(item.text.encode()) for item in some)


def compressibility(some: Sequence[Item]) -> Compressibility:
    """Return how well the texts of items compress."""
    shrink = zstandard.ZstdCompressor(level=3).compress
    texts = [item.text.encode() for item in some]
    total = sum(map(len, texts))
    single = sum(len(shrink(text)) for text in texts)
    blocks = sum(len(shrink(b"".join(block))) for block in _blocks(texts))
    return Compressibility(total / single, total / blocks)


def _blocks(texts: list[bytes]) -> Iterator[list[bytes]]:
    return (texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK))
