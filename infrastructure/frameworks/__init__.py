"""Adapters: the stores that agent frameworks expect, each kept as chats of a store."""
