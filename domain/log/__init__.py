"""The log: envelopes of events, the ports, the admission of events, and the logs that need no database."""
