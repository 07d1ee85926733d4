"""What stays true with no database: events, deciders, state, the public classes, ports, errors."""
