"""Sessions of the OpenAI Agents SDK in a store: `RefoldSession(store, "id")`."""

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("openai-agents"):
    from refold.infrastructure.frameworks.openai_agents import RefoldSession

__all__ = ["RefoldSession"]
