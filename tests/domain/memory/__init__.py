"""Memories of agents."""
