"""What may happen to queues and pools, and the events that it makes."""
