"""The server for agents: by the client of its own package, and by the suite that the protocol publishes."""
