"""The formats of model providers: items of a chat to and from their messages."""
