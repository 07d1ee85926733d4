"""The rows of projections in databases."""
