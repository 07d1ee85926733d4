"""The Inspector: a page on which people look at a store, and the JSON that it asks for."""
