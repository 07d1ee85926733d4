"""The rules of a chat context: commands in, events out."""
