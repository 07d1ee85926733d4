"""Importing: files in, contexts out, and the same messages back."""
