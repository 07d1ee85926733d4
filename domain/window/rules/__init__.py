"""What may happen to a window, and the events that it makes."""
