"""Queues and pools: what they hold, what hooks see, what a merge takes."""
