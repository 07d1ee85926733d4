"""Tests of the Inspector: its JSON, and its page in a browser."""
