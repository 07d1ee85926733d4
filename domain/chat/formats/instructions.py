"""
Which instructions are sent, and where: one rule for the formats of OpenAI (SPEC V9.5 to V9.7).

The instructions in force are sent once, at the place of the first system or developer message, or in front where
there is none. A context whose instructions all came from an import, which the caller has not overruled, is sent
as it came, with as many messages of instructions as it has.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..events import ChatItemEvent, ConfigUpdated, MessageAdded
from ..kinds import INSTRUCTION_ROLES
from ..state.fold import active_config

Config = tuple[str | None, Sequence[str] | None]


class Placed(msgspec.Struct, frozen=True):
    """
    `text` goes where the item `place` is, or in front where `place` is None; all other instructions are left out.

    With `as_recorded` each message of instructions is sent as it is instead.
    """

    text: str | None
    place: int | None
    as_recorded: bool


def instructions_in_force(items: Sequence[ChatItemEvent], config: Config | None) -> str | None:
    """Return the instructions of `config`, or those that the items leave in force."""
    return (active_config(items) if config is None else config)[0]


def place_instructions(items: Sequence[ChatItemEvent], config: Config | None) -> Placed:
    """Return which instructions are sent, and where; `config` is the (instructions, tools) in force, if it is known."""
    bearing = [index for index, item in enumerate(items) if _bears(item)]
    config = config or active_config(items[index] for index in bearing)
    spoken = [index for index in bearing if type(items[index]) is MessageAdded]
    if not spoken:
        return Placed(text=config[0], place=None, as_recorded=False)
    is_in_force = active_config([items[spoken[-1]]])[0] == config[0]
    is_alone = len(bearing) == 1
    return Placed(
        text=config[0],
        place=spoken[0],
        as_recorded=is_in_force and (is_alone or _is_imported(items, bearing)),
    )


def _bears(item: ChatItemEvent) -> bool:
    if type(item) is MessageAdded:
        return item.role in INSTRUCTION_ROLES
    return type(item) is ConfigUpdated


def _is_imported(items: Sequence[ChatItemEvent], bearing: Sequence[int]) -> bool:
    """A config update that only names tools overrules no instructions."""
    return all(
        items[index].origin is not None or getattr(items[index], "instructions", "") is None for index in bearing
    )
