"""Chat contexts in the formats of model providers, both ways: one module for each direction of each format."""
