"""Events in a few words."""

from __future__ import annotations

from typing import Any

from ...domain.chat.events import EDIT_EVENTS, ITEM_EVENTS, Named, Opened
from ..plain_data import plain_fields
from .edits import edit_summary
from .folded_wording import folded_summary
from .runs.wording import run_summary
from .shapes import json_text
from .speaking import said_by
from .terminal import one_line


def type_of(event: Any) -> str:
    """Return the name of an event's type, without kind and version: the part that people say."""
    return str(event.__struct_config__.tag).split(".")[1]


def summary_of(event: Any) -> str:
    """Return an event on one line; one that is not known here by its fields."""
    if isinstance(event, ITEM_EVENTS):
        return one_line(said_by(event))
    if isinstance(event, EDIT_EVENTS):
        return one_line(edit_summary(event))
    for summary in (folded_summary(event), run_summary(event)):
        if summary is not None:
            return one_line(summary)
    match event:
        case Named(name=name, version=version):
            return one_line(f"{name} = @{version}")
        case Opened(user=user, session=session, agent=agent, source=source):
            said = {"user": user, "session": session, "agent": agent, "source": source}
            return one_line(" ".join(f"{name}={value}" for name, value in said.items() if value))
        case _:
            return one_line(json_text(plain_fields(event)))
