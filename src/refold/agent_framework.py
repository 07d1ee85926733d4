"""Histories of Microsoft's Agent Framework in a store: `RefoldHistoryProvider(store)`."""

from refold.infrastructure.frameworks.agent_framework import RefoldHistoryProvider

__all__ = ["RefoldHistoryProvider"]
