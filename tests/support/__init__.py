"""What tests share: a PostgreSQL server of their own, and a pooler to put before it."""
