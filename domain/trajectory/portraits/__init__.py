"""How a model comes to describe data nodes: what it is asked, where, and how many at once (SPEC D10)."""
