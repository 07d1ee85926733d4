"""The demo, which is the first thing that somebody new runs."""
