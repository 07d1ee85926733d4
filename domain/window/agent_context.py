"""What an agent knows about the request that it serves (SPEC A3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..memory.protocol import MemoryStore
from .items import ContextItem
from .window import ContextWindow


@dataclass(slots=True)
class AgentContext:
    """
    One request to an agent: its trace, its endpoint, whose it is, the window for the prompt, and the memory (SPEC A3).

    Without a store the window lives as long as the request. `store.agent_context(...)` gives one whose window is kept
    for the session and whose memory is the store's; what is recorded through it bears the trace and the endpoint.
    """

    trace_id: str
    endpoint_name: str
    session_id: str | None = None
    user_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    context_window: ContextWindow = field(default_factory=ContextWindow)
    memory: MemoryStore | None = None

    def add_context(self, key: str, value: str, *, source: str = "agent", priority: int = 0) -> None:
        """
        Let an item into the window (SPEC A3.4); one that does not fit is in `context_window.dropped()`.

        Raises:
            TypeError: key, value or source is no text.
            InvalidInputError: a text that is no Unicode, or a priority that is no number.
        """
        self.context_window.add(ContextItem(key, value, source, priority))
