"""What a run's events add up to, and what can be asked of it."""
