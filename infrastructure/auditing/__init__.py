"""What became of contexts and of all in them, who did it, when, from what, to what, and why."""
