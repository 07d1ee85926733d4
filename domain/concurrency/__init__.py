"""Locks, promises, threads and forks of the process."""
