"""The rules of providers, as checkers that name each fault of a request."""
