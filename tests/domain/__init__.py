"""Tests of what stays true with no database: given-when-then, properties, and the public classes in memory."""
