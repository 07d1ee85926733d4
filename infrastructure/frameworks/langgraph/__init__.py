"""Threads of LangGraph, with their checkpoints, kept in a store."""

from .saver import RefoldSaver
from .store import RefoldStore

__all__ = ["RefoldSaver", "RefoldStore"]
