"""Projections and their runner, on every kind of store."""
