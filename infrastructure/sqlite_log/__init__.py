"""Refold's log on SQLite. What the `eventsourcing` package needs of it stands beside, in `sqlite`."""
