"""The folded state of a chat context: its items, the fold, and the items that the fold needs from other streams."""
