"""The context queue and the context pool: their events, rules, folded state and public classes."""
