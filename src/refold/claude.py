"""Sessions of the Claude Agent SDK in a store: `RefoldSessions(store)`."""

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("claude"):
    from refold.infrastructure.frameworks.claude import RefoldSessions

__all__ = ["RefoldSessions"]
