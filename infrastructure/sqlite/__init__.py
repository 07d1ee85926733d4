"""
Storage on SQLite: Refold's log, and recorders for any application of the `eventsourcing` package.

The package looks through this module for a factory, so exactly one is here:
`PERSISTENCE_MODULE=refold.infrastructure.sqlite` is all an application has to say.
"""

from ..recorders.sqlite import SqliteFactory

__all__ = ["SqliteFactory"]
