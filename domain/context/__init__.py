"""The common part of contexts of all kinds: deciding, recording, reading a past version."""
