"""Ready-made models over the official clients; each needs its extra, and imports the client only when it is created."""
