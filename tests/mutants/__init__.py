"""Defects are put into a copy of the project; the tests that run them should notice."""
