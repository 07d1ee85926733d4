"""The public calls of a chat context, by what they do."""
