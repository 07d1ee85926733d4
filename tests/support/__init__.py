"""Helpers that tests share: a PostgreSQL server for tests alone, and a pooler in front of it."""
