"""Messages in the form of agent frameworks."""
