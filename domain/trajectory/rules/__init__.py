"""The rules of a run: its commands, and the events that they lead to."""
