"""The folded state of a run, and questions to it."""
