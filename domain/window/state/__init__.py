"""What is in a window, folded from its events."""
