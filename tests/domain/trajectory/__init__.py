"""Runs as graphs."""
