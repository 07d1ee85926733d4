"""What model providers send and receive, to and from items of a chat."""
