"""Recorders for applications of the `eventsourcing` package."""
