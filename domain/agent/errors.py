"""
The errors of agents, turns and tools, in the tree of `domain/errors.py` and under the seed's names.

    RefoldError
    ├── RefusedError
    │   ├── InvalidInputError
    │   │   └── UnroutableItemError     an item of a tool that no context can hold (also a ValueError)
    │   ├── NotFoundError
    │   │   ├── UnregisteredAgentError  no agent of this name (also a KeyError)
    │   │   └── UnregisteredToolError   no tool of this name (also a KeyError)
    │   ├── DecisionRefusedError
    │   │   └── SafeExecutionError      not while it runs or is paused
    │   └── WrongRunMethodError         returning() for a tool that yields, or the other way round
    └── TurnTimeoutError                a turn took longer than its timeout (also a TimeoutError)
"""

from __future__ import annotations

from ..errors import DecisionRefusedError, InvalidInputError, NotFoundError, RefoldError, RefusedError
from ..pool.items import ContextItem


class SafeExecutionError(DecisionRefusedError):
    """A turn or an agent was run or changed while it was running, or an agent while it was paused."""


class WrongRunMethodError(RefusedError):
    """`returning()` was called for a tool that yields, or `yielding()` for one that returns."""


class TurnTimeoutError(RefoldError, TimeoutError):
    """A turn took longer than its timeout."""


class UnregisteredToolError(NotFoundError):
    """No tool of this name is registered."""


class UnregisteredAgentError(NotFoundError):
    """No agent of this name is registered."""


class UnroutableItemError(InvalidInputError):
    """
    An item that neither queue nor pool can hold: it has no description, or content that cannot be stored.

    No value of the same result was routed, and the run ends with this turn. The turns behind it stay in the agent's
    queue, and the item is in `item` and in the turn's `output`.
    """

    def __init__(self, agent: str, tool: str, item: ContextItem[object], why: str) -> None:
        self.agent, self.tool, self.item = agent, tool, item
        super().__init__(f"an item that tool {tool!r} gave agent {agent!r} {why}")
