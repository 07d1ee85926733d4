"""What providers refuse, as checkers that name each fault of a request."""
