"""What an erasure leaves of events, and what it names."""
