"""A whole store at a moment of its past."""
