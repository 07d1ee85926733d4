"""The known events of windows and memories."""

from refold.domain.content import Content
from refold.domain.log.envelope import Event
from refold.domain.memory.events import MemoryForgotten, MemoryNamed, MemoryRemembered, MemoryRestored
from refold.domain.spans import Ref, Span
from refold.domain.totals import Totals
from refold.domain.window.events import (
    WindowAdded,
    WindowCleared,
    WindowDropped,
    WindowEvicted,
    WindowNamed,
    WindowOpened,
    WindowReplaced,
    WindowRestored,
    WindowSettingsChanged,
)

OWN = Span.of("", [2, 3, 4, 9, 70_000])
NAMED = Span.of("window:über", [1, 200, 201])
CHANGE = Totals(-3, 0, -120)

WINDOW_EVENTS: list[Event] = [
    WindowOpened(max_tokens=100_000),
    WindowOpened(max_tokens=-1, policy="evict_lower_priority", user="mia", session="s1", agent="triage"),
    WindowAdded(key="", value="", source="", quarters=20, change=Totals(1, 0, 5)),
    WindowAdded(key="schéma", value="漢字\n\x00", source="tool", priority=-2, quarters=70_000, change=Totals(1, 0, 17)),
    WindowReplaced(key="k", value="v", source="s", quarters=23, old=(OWN,), change=CHANGE),
    WindowReplaced(key="k", value="v", source="s", priority=0.5, quarters=23, old=(OWN, OWN), change=CHANGE),
    WindowDropped(key="k", value="v", source="s", quarters=23, tokens=11, max_tokens=10),
    WindowDropped(key="k", value="v", source="s", priority=10, quarters=4_000_000, tokens=1_000_000, max_tokens=0),
    WindowEvicted(items=(OWN,), change=CHANGE),
    WindowEvicted(items=(OWN, OWN), change=CHANGE, how="remove", reason="stale"),
    WindowRestored(items=(NAMED,), change=-CHANGE),
    WindowRestored(items=(NAMED, NAMED), change=-CHANGE),
    WindowCleared(change=CHANGE),
    WindowSettingsChanged(max_tokens=0),
    WindowSettingsChanged(max_tokens=8_000, policy="evict_lower_priority"),
    WindowNamed(name="before-lunch", version=1),
    WindowNamed(name="über", version=100_000),
]
MEMORY_EVENTS: list[Event] = [
    MemoryRemembered(key="lang", value=Content(text="en"), first_at=0, at=1, change=Totals(1, 0, 1)),
    MemoryRemembered(
        key="plan",
        value=Content(json=b'{"steps":[1,2]}', type="app.plans:Plan"),
        kind="procedural",
        tags=("hot", "über"),
        first_at=1_795_000_000_250_000,
        at=1_795_000_001_000_000,
        replaced=Ref(70_000),
        change=CHANGE,
    ),
    MemoryForgotten(items=(OWN,), change=CHANGE),
    MemoryForgotten(items=(OWN, OWN), change=CHANGE, reason="the user asked for it"),
    MemoryRestored(items=(Span.of("memory:user:42", [1, 200]),), change=-CHANGE),
    MemoryNamed(name="before-lunch", version=1),
    MemoryNamed(name="über", version=100_000),
]
