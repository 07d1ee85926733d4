"""Tests of the adapter of Microsoft's Agent Framework; they need its package."""
