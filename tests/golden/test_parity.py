"""Every recorded answer comes out equal, or as deviations of docs/deviations.md compute it, and no wrong one does."""

import functools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from tests.contract.stores import KEYS
from tests.docs.markdown import table_rows
from tests.support.deviations import (
    anthropic,
    caching,
    forking,
    google,
    joining,
    openai,
    summarising,
    trajectory,
    truncating,
)
from tests.support.deviations.messages import TEXT_OF_ORPHANS
from tests.support.deviations.switches import UNEXPLAINED
from tests.support.effort import IS_DEEP
from tests.support.parity import chats, conversions
from tests.support.parity.forms import recognized
from tests.support.parity.homes import kept_in
from tests.support.parity.replayers import REPLAYERS
from tests.support.parity.verdicts import Question, Verdict, weighed
from tests.support.project import ROOT

COMMITTED, WHOLE = ROOT / "tests" / "golden", ROOT.parent / "shared" / "golden"
CORPORA = (
    "videosdk_fuzz.jsonl",
    "videosdk_converters.json",
    "messages_fuzz.jsonl",
    "agenticapi_fuzz.jsonl",
    "pygents_fuzz.jsonl",
    "dataagent_fuzz.jsonl",
)
# What a corpus can show; the others are asserted one by one in test_parity_{deviations,trajectories,windows}.py.
SHOWN = {
    "videosdk_fuzz.jsonl": {
        *anthropic.NUMBERS, *forking.FORK_NUMBERS, *forking.COPY_NUMBERS, *google.NUMBERS, *joining.INSERT_NUMBERS,
        *joining.MERGE_NUMBERS, *joining.RESULT_NUMBERS, *openai.NUMBERS, *summarising.NUMBERS, *truncating.NUMBERS,
    } - {"V5.4", "V10.5"},
    "videosdk_converters.json": {
        *anthropic.NUMBERS, *google.NUMBERS, *openai.NUMBERS, caching.NUMBER, "V6.5", "V13.3",
    } - {"V10.4"},
    "messages_fuzz.jsonl": {TEXT_OF_ORPHANS},
    "agenticapi_fuzz.jsonl": set(),
    "pygents_fuzz.jsonl": set(),
    "dataagent_fuzz.jsonl": {"D4.5", "D5.4", "D7.4", "D7.12"},
}  # fmt: skip


def replayed(path: Path) -> list[Verdict]:
    """Replay a file."""
    text = path.read_text(encoding="utf-8")
    form = recognized(text)
    assert form is not None
    return list(REPLAYERS[form](text))


def numbers_met(verdicts: list[Verdict]) -> set[str]:
    """Return the deviations that verdicts name."""
    return {number for verdict in verdicts for number in verdict.outcome.split()} - {"equal"}


def questions() -> Iterator[Question]:
    """Yield all that is asked of some of the committed cases."""
    for name, case in json.loads((COMMITTED / CORPORA[1]).read_text(encoding="utf-8")).items():
        yield from (one._replace(name=f"{name}: {one.name}") for one in conversions.questions_of(case))
    for line in (COMMITTED / CORPORA[0]).read_text(encoding="utf-8").split("\n")[:4]:
        case = json.loads(line)
        yield from (one._replace(name=f"{case['seed']}: {one.name}") for one in chats.questions_of(case))


def spoiled(answer: Any) -> Any:
    """Return another answer of the same kind."""
    if isinstance(answer, bool):
        return not answer
    if isinstance(answer, list) and answer and isinstance(answer[0], list):
        return [spoiled(answer[0]), *answer[1:]]
    if isinstance(answer, list):
        return [*answer, answer[-1] if answer else {"role": "user", "content": "?"}]
    if isinstance(answer, dict):
        first = next(iter(answer))
        return {**answer, first: spoiled(answer[first])}
    return answer + ("?" if isinstance(answer, str) else 1)


@pytest.mark.long
@pytest.mark.parametrize("folder", [COMMITTED, WHOLE], ids=["committed", "whole"])
@pytest.mark.parametrize("name", CORPORA)
def test_every_answer_is_equal_or_explained(folder: Path, name: str) -> None:
    """By all the deviations that there are, and by none that is not met."""
    if not (folder / name).exists():
        pytest.skip(f"shared/golden/{name} is not beside this checkout")
    verdicts = replayed(folder / name)

    assert [verdict for verdict in verdicts if verdict.outcome == UNEXPLAINED] == []
    assert len(verdicts) >= 20
    assert numbers_met(verdicts) == SHOWN[name]


@pytest.mark.long
@pytest.mark.parametrize("keys", [KEYS, *([None] if IS_DEEP else [])], ids=["sealed", "plain"][: 1 + IS_DEEP])
def test_contexts_of_a_store_answer_so_too(keys: refold.Keys | None, ready_pg_url: str, tmp_path: Path) -> None:
    """
    Those of all committed cases, written to an encrypted database before they are asked: each corpus to one of two, in
    the deep test to either, and to plain ones.
    """
    kinds: Counter[str] = Counter()
    with refold.open(tmp_path / "replayed.db", keys=keys) as file, refold.open(ready_pg_url, keys=keys) as server:
        for number, name in enumerate(CORPORA):
            expected = replayed(COMMITTED / name)
            for store in (file, server) if IS_DEEP else ((file, server)[number % 2],):
                with kept_in(store):
                    assert replayed(COMMITTED / name) == expected, name
        for store in (file, server):
            kinds.update(stream.split(":")[0] for stream in store.log.streams())

    assert {"chat", "queue", "pool", "window", "run"} <= kinds.keys()
    assert kinds["chat"] > 500


def test_what_deviates_is_told() -> None:
    """Each number has its row in docs/deviations.md, which says that it is repaired."""
    rows = {row[0]: row[2] for row in table_rows((ROOT / "docs" / "deviations.md").read_text(encoding="utf-8"))}
    numbers = set().union(*SHOWN.values()) | {"V1.11c", "V1.15", "V5.4", *trajectory.NUMBERS}

    assert {number: rows.get(number, "no row")[:8] for number in numbers} == dict.fromkeys(numbers, "Repaired")


def test_no_wrong_answer_is_explained() -> None:
    """Neither one of ours that is wrong in any part, nor a recorded one that is, whatever is asked."""
    passed = []
    for question in questions():
        ours = question.ask()
        for one in (
            question._replace(recorded=spoiled(question.recorded)),
            question._replace(ask=functools.partial(spoiled, ours)),
        ):
            passed += [one.name] if weighed(one) != [UNEXPLAINED] else []

    assert passed == []
