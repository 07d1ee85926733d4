"""Checkpoints and long-term memory of LangGraph, kept in a store."""

from .saver import RefoldSaver

__all__ = ["RefoldSaver"]
