"""Recorders on SQLite."""
