"""The files of rounds: written, read back, and imported."""
