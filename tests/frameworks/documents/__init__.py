"""The documents about frameworks."""
