"""Our recorders behind the interfaces of the `eventsourcing` package, held to the cases that it ships."""
