"""Contexts as people see them: at a version, compared, as a graph, and in the shapes of JSON."""
