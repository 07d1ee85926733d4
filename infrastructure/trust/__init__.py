"""Trust: keys of encrypted stores and what is built on them, and who may do what."""
