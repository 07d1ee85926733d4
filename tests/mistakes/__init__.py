"""Mistakes that users make: each is a typed error at the call, and changes nothing."""
