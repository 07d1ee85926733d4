"""Agents, their turns and tools: the seed's way into queues and pools."""
