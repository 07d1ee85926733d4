"""Tests of the adapter of Pydantic AI; they need its package."""
