"""Stored bytes that must never change: one file for each type of event, one for the envelope."""
