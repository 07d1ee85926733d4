"""Tests of the house itself: what is built, what imports what, and how big things may grow."""
