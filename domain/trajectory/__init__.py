"""Runs of agents as graphs: their events, rules, folded state and public classes."""
