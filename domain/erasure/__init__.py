"""Erasing texts from events: which texts, the events that say so, and the contexts that must be kept."""
