"""The context window with a token budget: its events, rules, folded state and public classes."""
