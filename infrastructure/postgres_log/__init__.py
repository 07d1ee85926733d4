"""Refold's log on PostgreSQL. What the `eventsourcing` package needs of it stands beside, in `postgres`."""
