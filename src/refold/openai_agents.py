"""Sessions of the OpenAI Agents SDK in a store: `RefoldSession(store, "id")`."""

from refold.infrastructure.frameworks.openai_agents import RefoldSession

__all__ = ["RefoldSession"]
