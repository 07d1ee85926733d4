"""Folds of recorded events into answers, one file per question."""
