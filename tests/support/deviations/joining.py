"""
How the seed inserts items and merges contexts (SPEC V2.21 to V2.23, V5), and what Refold repairs in it.

V2.22 the same item again is nothing new; V5.3 what is there keeps its order, and no output goes before its call; V5.4
an id comes in once; V5.6 what sets instructions or tools stays behind; V5.8 an answer is taken once.
"""

from collections.abc import Collection, Sequence

from .plain_items import Item, answered_calls, is_instructions, is_message

INSERT_NUMBERS = ("V2.22",)
MERGE_NUMBERS = ("V5.3", "V5.4", "V5.6")
RESULT_NUMBERS = ("V5.8",)


def inserted(items: Sequence[Item], incoming: Sequence[Item], *, on: Collection[str] = ()) -> list[Item]:
    """Return a context after these items were inserted, one after the other."""
    result = [*items]
    for item in incoming:
        if "V2.22" in on and any(item["id"] == known["id"] for known in result):
            continue
        places = (place for place, known in enumerate(result) if known["created_at"] > item["created_at"])
        result.insert(next(places, len(result)), item)
    return result


def by_time(items: Sequence[Item]) -> list[Item]:
    """Return items with the oldest first, which is the order of an insertion of many items."""
    return sorted(items, key=lambda item: item["created_at"])


def merged(items: Sequence[Item], other: Sequence[Item], *, on: Collection[str] = ()) -> list[Item]:
    """Return a context after another one was merged into it; the two have no fork in common."""
    known = {item["id"] for item in items}
    coming = [place for place, item in enumerate(other) if item["id"] not in known]
    if "V5.4" in on:
        first = {other[place]["id"]: place for place in reversed(coming)}
        coming = sorted(first.values())
    if "V5.6" in on:
        coming = [place for place in coming if not _sets_config(other[place])]
    if "V5.3" not in on:
        return by_time([*items, *(other[place] for place in coming)])
    return _placed(items, other, coming)


def _placed(items: Sequence[Item], other: Sequence[Item], coming: Sequence[int]) -> list[Item]:
    """Put each item before the first younger one. An output counts as no older than its call, and goes after it."""
    call_of = {output: call for call, output in answered_calls(other).items()}

    def time(place: int) -> float:
        return max(float(other[one]["created_at"]) for one in (place, call_of.get(place, place)))

    def behind(place: int) -> int:
        older = next((at for at, known in enumerate(items) if known["created_at"] > time(place)), len(items))
        call_id = other[call_of[place]]["id"] if place in call_of else None
        return max(older, *(at + 1 for at, known in enumerate(items) if known["id"] == call_id), 0)

    places = sorted(coming, key=time)
    groups = [[other[place] for place in places if behind(place) == at] for at in range(len(items) + 1)]
    return [item for at, known in enumerate([*items, None]) for item in (*groups[at], known) if item is not None]


def _sets_config(item: Item) -> bool:
    return is_instructions(item) or item["type"] == "agent_config_update"


def result_merged(
    items: Sequence[Item], other: Sequence[Item], *, agent_id: str | None, on: Collection[str] = ()
) -> list[Item]:
    """Return a context after the last answer of another one was merged into it."""
    answers = [item for item in other if is_message(item, "assistant")][-1:]
    if "V5.8" in on:
        answers = [item for item in answers if all(item["id"] != known["id"] for known in items)]
    return [*items, *(item if agent_id is None else {**item, "agent_id": agent_id} for item in answers)]
