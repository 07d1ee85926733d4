"""Running projections: the stores of their rows, and the runner that keeps the rows up to date."""
