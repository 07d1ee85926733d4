"""Replays the recorded answers of the originals for `scripts/parity`; tests check the replay."""
