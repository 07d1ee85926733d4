"""The documents are right: their examples run, their links lead somewhere, their tables match the code."""
