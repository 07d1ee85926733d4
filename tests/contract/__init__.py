"""What every log must do, and every chat context on it: one contract, run on memory, SQLite and PostgreSQL."""
