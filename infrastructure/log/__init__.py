"""Logs in databases: the common part of SQLite and PostgreSQL."""
