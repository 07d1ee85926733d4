"""What may be done in a run, and the events that it becomes."""
