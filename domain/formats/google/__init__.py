"""Google contents."""
