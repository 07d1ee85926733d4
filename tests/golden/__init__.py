"""Stored bytes that must never change: a file for each type of event, one for the envelope, one for what has keys."""
