"""Tests of the adapter of the Claude Agent SDK; they need its package."""
