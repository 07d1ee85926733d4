"""Agents, their turns and tools: the seed's interface to queues and pools."""
