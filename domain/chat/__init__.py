"""The chat context: its events, its rules, its folded state and its public classes."""
