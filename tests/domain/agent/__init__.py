"""Agents, their turns and tools: what runs, what is routed where, what tools are shown, and what is saved."""
