"""Logs in databases: what SQLite and PostgreSQL have in common."""
