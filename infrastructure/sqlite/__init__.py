"""
The name by which an application of the `eventsourcing` package finds recorders on SQLite.

The package looks through this module for a factory, so exactly one is here:
`PERSISTENCE_MODULE=refold.infrastructure.sqlite` is all an application has to say.
"""

from ..recorders.sqlite import SqliteFactory

__all__ = ["SqliteFactory"]
