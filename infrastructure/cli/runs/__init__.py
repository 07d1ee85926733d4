"""What the commands say of runs: as a whole, as graphs, as differences, and what became of their nodes."""
