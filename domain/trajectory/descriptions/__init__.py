"""Descriptions that a model writes of the nodes of a run."""
