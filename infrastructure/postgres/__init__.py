"""
Storage on PostgreSQL: Refold's log on one server or on shards of it, and recorders for any application of the
`eventsourcing` package.

The package looks through this module for a factory, so exactly one is here:
`PERSISTENCE_MODULE=refold.infrastructure.postgres`, and where the database is, are all an application has to say.
"""

from ..recorders.postgres import PostgresFactory

__all__ = ["PostgresFactory"]
