"""Measures how many bytes a fork with one item adds to a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refold.infrastructure.log.evidence import SEGMENT

from .forks import copy_streams, first_payload, fork_once, raw_fork_once
from .ours import Ours
from .packed_size import packed_bytes
from .rows import Unit
from .subject import Subject
from .timing import Stats, idle, of_values
from .workload import items

BYTES = Unit("B")
# With one item each, so many forks are the events of one segment, so the whole segment is at rest at the end.
FORKS_MAX = SEGMENT // 2


def fork_bytes(ours: Ours, raw: Subject, contexts: Sequence[str], forks: int) -> dict[str, Stats]:
    """
    Return the bytes for each of some forks (at most 256) of the last of `contexts`, which are all that Refold's
    store holds; the bare store must be empty. The item is a user's message of about 200 characters.
    """
    copy_streams(ours, raw, contexts)
    _fill_segment(ours, contexts)
    texts = [item for item in items(4 * min(forks, FORKS_MAX)) if item.kind == "user"]
    forked = b""

    def write_ours() -> None:
        nonlocal forked
        parent = ours.store.chat(contexts[-1])
        children = [fork_once(parent, text) for text in texts]
        forked = first_payload(children[-1])

    def write_raw() -> None:
        for number, text in enumerate(texts):
            raw_fork_once(raw, f"counted-{number}", forked, raw.ready(text))

    grown = {"ours": _growth(ours, write_ours), "raw": _growth(raw, write_raw)}
    return {name: of_values(count / len(texts)) for name, count in grown.items()}


def _fill_segment(ours: Ours, contexts: Sequence[str]) -> None:
    """
    Begin a segment: only the events before it are sealed. If these were sealed later, this would count as a saving.
    """
    recorded = sum(ours.store.chat(context).version for context in contexts)
    # The filler's own beginning is the first event of the segment.
    ours.build("filler", items(-recorded % SEGMENT))


def _growth(subject: Subject, write: Callable[[], None]) -> int:
    before = _at_rest(subject)
    write()
    return _at_rest(subject) - before


def _at_rest(subject: Subject) -> int:
    idle()
    subject.close()
    used = packed_bytes(subject.location)
    subject.open()
    return used
