"""What a log is: its events and envelopes, the ports, the door, and the logs that need no database."""
