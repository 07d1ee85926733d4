"""The adapters of frameworks, and the core that they share."""
