"""Sessions of Google's Agent Development Kit in a store: `RefoldSessionService(store)`."""

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("adk"):
    from refold.infrastructure.frameworks.adk import RefoldSessionService

__all__ = ["RefoldSessionService"]
