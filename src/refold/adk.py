"""Sessions of Google's Agent Development Kit in a store: `RefoldSessionService(store)`."""

from refold.infrastructure.frameworks.adk import RefoldSessionService

__all__ = ["RefoldSessionService"]
