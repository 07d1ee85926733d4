"""The folded state of a chat context: its items, the fold, and what the fold needs of other streams."""
