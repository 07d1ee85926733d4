"""The context window, the agent's context and its memory under their seed's names: an import moves code over."""

from __future__ import annotations

from refold.domain.memory import *  # noqa: F403
from refold.domain.memory import __all__ as _memory
from refold.domain.window import *  # noqa: F403
from refold.domain.window import __all__ as _window
from refold.infrastructure.memory_file import SqliteMemoryStore

__all__ = [*_window, *_memory, "SqliteMemoryStore"]
