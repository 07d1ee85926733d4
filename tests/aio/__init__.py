"""The async side of stores and contexts."""
