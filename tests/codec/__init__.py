"""Tests of what lies between events and bytes: upcasting, compression, large texts."""
