"""Tests of the adapter of LlamaIndex; they need its package."""
