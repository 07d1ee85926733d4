"""A server of the Model Context Protocol: an agent reads the contexts of a store, and changes chats if it may."""

from .server import http_app, mcp_server

__all__ = ["http_app", "mcp_server"]
