"""The layer that needs no database: events, deciders, state, the public classes, ports, errors."""
