"""A server of the Model Context Protocol over a store: `mcp_server(store)` and `http_app(server)`."""

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("mcp"):
    from refold.infrastructure.frameworks.mcp import http_app, mcp_server

__all__ = ["http_app", "mcp_server"]
