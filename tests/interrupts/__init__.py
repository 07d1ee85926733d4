"""Exceptions that come upon any line: the store goes on, and keeps what was acknowledged."""
