"""Several frameworks on one chat."""
