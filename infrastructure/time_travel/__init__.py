"""A whole store at a moment of its past: looked at, compared, and branched to see what would have been."""
