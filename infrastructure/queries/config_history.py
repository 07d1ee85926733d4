"""
Which instructions and tools were in force in a chat, and what changed them: from the validity of the items that say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...domain.chat.events import added_item
from ...domain.chat.kinds import INSTRUCTION_ROLES
from ...domain.chat.state.fold import active_config
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.spans import Ref
from ...projections.stays import STILL_THERE
from .audit_trail import Change
from .intervals import Interval
from .origins import births, ref_of

CONFIG = "agent_config_update"


def config_changes(log: Log, stream: str, stays: Iterable[Interval]) -> Iterator[Change]:
    """Yield the changes of a chat's instructions and tools, oldest first; `stays` are the intervals of its items."""
    saying = [stay for stay in stays if stay.role in INSTRUCTION_ROLES or stay.type == CONFIG]
    coming, leaving = _by_version(saying, "v0"), _by_version(saying, "v1")
    versions = sorted({*coming, *leaving} - {STILL_THERE})
    recorded = births(log, [Ref(version, stream) for version in versions])
    items = {birth: added_item(born.event) for birth, born in _born(log, saying).items()}
    there: dict[int, Interval] = {}
    before: tuple[object, object] = (None, None)
    for version in versions:
        for stay in leaving.get(version, ()):
            del there[stay.place]
        there |= {stay.place: stay for stay in coming.get(version, ())}
        shown = (items[there[place].birth] for place in sorted(there))
        instructions, tools = active_config(item for item in shown if item is not None)
        now = (instructions, None if tools is None else list(tools))
        for attribute, old, new in zip(("instructions", "tools"), before, now, strict=True):
            if old != new:
                yield Change(recorded[Ref(version, stream)], attribute=attribute, old=old, new=new)
        before = now


def _by_version(stays: Iterable[Interval], field: str) -> dict[int, list[Interval]]:
    by_version: dict[int, list[Interval]] = {}
    for stay in stays:
        by_version.setdefault(getattr(stay, field), []).append(stay)
    return by_version


def _born(log: Log, stays: Iterable[Interval]) -> dict[str, RecordedEvent]:
    found = births(log, {ref_of(stay.birth) for stay in stays})
    return {f"{ref.stream}@{ref.version}": recorded for ref, recorded in found.items()}
