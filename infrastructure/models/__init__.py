"""Ready-made models over the official clients; each needs its extra, and imports it only when one is made."""
