"""What is PostgreSQL's own: slices, round trips, lost answers, poolers, its errors. The rest is in tests/contract."""
