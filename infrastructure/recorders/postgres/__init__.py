"""Recorders on PostgreSQL."""
