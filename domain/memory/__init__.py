"""Memories of agents: their events, rules, folded state and public classes."""
