"""Threads of LangGraph, with their checkpoints, kept in a store."""

from .saver import RefoldSaver

__all__ = ["RefoldSaver"]
