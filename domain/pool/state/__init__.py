"""The folded state of queues and pools, and the folds."""
