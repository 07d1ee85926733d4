"""Replaying the originals' recorded answers: what `scripts/parity` does, and what tests hold it to."""
