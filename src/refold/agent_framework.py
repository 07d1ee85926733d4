"""Histories of Microsoft's Agent Framework in a store: `RefoldHistoryProvider(store)`."""

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("agent-framework"):
    from refold.infrastructure.frameworks.agent_framework import RefoldHistoryProvider

__all__ = ["RefoldHistoryProvider"]
