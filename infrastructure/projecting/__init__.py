"""Running projections: where their rows lie, and the runner that keeps them up to date."""
