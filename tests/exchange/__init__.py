"""Files of events: out of one store and into another."""
