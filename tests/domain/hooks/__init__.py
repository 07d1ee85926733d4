"""Hooks: when they are called and how, finding them again, saving them, and what is handed to them."""
