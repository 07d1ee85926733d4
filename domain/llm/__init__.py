"""Asking models: the base of adapters, their answers and errors, and a model that falls back to others."""
