"""Damage of every kind, and what is said of it."""
