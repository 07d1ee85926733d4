"""Tests of the adapter for message histories of LangChain; they need its package."""
