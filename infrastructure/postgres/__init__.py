"""
The name by which an application of the `eventsourcing` package finds recorders on PostgreSQL.

The package looks through this module for a factory, so exactly one is here:
`PERSISTENCE_MODULE=refold.infrastructure.postgres`, and where the database is, are all an application has to say.
"""

from ..recorders.postgres import PostgresFactory

__all__ = ["PostgresFactory"]
