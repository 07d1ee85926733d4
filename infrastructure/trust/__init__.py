"""Trust: keys of encrypted stores, evidence that a store was not changed, and who may do what."""
