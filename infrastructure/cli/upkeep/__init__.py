"""Commands that look after projections, and look a store over."""
