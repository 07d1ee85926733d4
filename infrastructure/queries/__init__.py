"""Questions about the past and the present that the log and the rows of projections answer."""
