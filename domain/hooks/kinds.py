"""When hooks fire: one enum for each kind of owner (SPEC P6.1)."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias


class _Moments(str, Enum):  # noqa: UP042 - the seed's base classes: str(kind) stays "TurnHook.BEFORE_RUN"
    """What all of them are: texts, in enums of their own."""


class TurnHook(_Moments):
    """Moments in the run of one turn."""

    BEFORE_RUN = "before_run"
    AFTER_RUN = "after_run"
    ON_TIMEOUT = "on_timeout"
    ON_ERROR = "on_error"
    ON_COMPLETE = "on_complete"


class AgentHook(_Moments):
    """Moments in the run of an agent."""

    BEFORE_TURN = "before_turn"
    AFTER_TURN = "after_turn"
    ON_TURN_VALUE = "on_turn_value"
    BEFORE_PUT = "before_put"
    AFTER_PUT = "after_put"
    ON_PAUSE = "on_pause"
    ON_RESUME = "on_resume"


class ToolHook(_Moments):
    """Moments in one call of a tool."""

    BEFORE_INVOKE = "before_invoke"
    AFTER_INVOKE = "after_invoke"
    ON_YIELD = "on_yield"
    ON_ERROR = "on_error"


class ContextQueueHook(_Moments):
    """Changes of a context queue."""

    BEFORE_APPEND = "before_append"
    AFTER_APPEND = "after_append"
    BEFORE_CLEAR = "before_clear"
    AFTER_CLEAR = "after_clear"
    ON_EVICT = "on_evict"


class ContextPoolHook(_Moments):
    """Changes of a context pool."""

    BEFORE_ADD = "before_add"
    AFTER_ADD = "after_add"
    BEFORE_REMOVE = "before_remove"
    AFTER_REMOVE = "after_remove"
    BEFORE_CLEAR = "before_clear"
    AFTER_CLEAR = "after_clear"
    ON_EVICT = "on_evict"


HookType: TypeAlias = TurnHook | AgentHook | ToolHook | ContextQueueHook | ContextPoolHook
