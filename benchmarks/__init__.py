"""Measurements: what Refold costs beside the bare database. Run by scripts/bench."""
